/** The fields of the limits form as an admin types them. Pure. */

import type { Limits, NewLimits, Used } from "../api/index.ts";

export type FieldName = Exclude<keyof Limits, "stopped">;

interface Field {
  readonly name: FieldName;
  /** Converts a typed number to the unit of the API. */
  readonly scale: number;
  readonly used: keyof Used | null;
  /** Whole numbers only. */
  readonly whole: boolean;
}

const MB = 1024 * 1024;

export const FIELDS: readonly Field[] = [
  { name: "messages_per_minute", scale: 1, used: null, whole: true },
  { name: "turns_at_once", scale: 1, used: "turns", whole: true },
  { name: "usd_day", scale: 1, used: "usd_day", whole: false },
  { name: "usd_month", scale: 1, used: "usd_month", whole: false },
  { name: "tokens_day", scale: 1, used: "tokens_day", whole: true },
  { name: "tokens_month", scale: 1, used: "tokens_month", whole: true },
  { name: "storage_bytes", scale: MB, used: "storage_bytes", whole: false },
];

/** The content of the form: one text a field, "" for the default, and the reason of a stop. */
export interface Form {
  readonly texts: Readonly<Record<FieldName, string>>;
  readonly stops: boolean;
  readonly reason: string;
}

/** Return the form for the limits given to an account. */
export function formOf(given: Limits): Form {
  const texts = Object.fromEntries(FIELDS.map((field) => [field.name, textOf(given[field.name], field.scale)]));
  return { texts: texts as Form["texts"], stops: Boolean(given.stopped), reason: given.stopped ?? "" };
}

function textOf(value: number | null | undefined, scale: number): string {
  return value === null || value === undefined ? "" : String(value / scale);
}

/** Return the names of the fields that are not valid numbers. */
export function wrongFields({ texts }: Form): readonly FieldName[] {
  return FIELDS.filter(({ name, whole }) => {
    const text = texts[name].trim();
    if (text === "") return false;
    const value = Number(text);
    return !Number.isFinite(value) || value < 0 || (whole && !Number.isInteger(value));
  }).map(({ name }) => name);
}

/**
 * Return the limits to send for a form. `version` is that of the limits it started from; `reason` is the reason to send
 * for a stop without one.
 */
export function limitsOf(form: Form, version: number, reason: string): NewLimits {
  const given = FIELDS.flatMap(({ name, scale }) => {
    const text = form.texts[name].trim();
    if (text === "") return [];
    return [[name, scale === 1 ? Number(text) : Math.round(Number(text) * scale)]];
  });
  const stopped = form.stops ? { stopped: form.reason.trim() || reason } : {};
  return { ...Object.fromEntries(given), ...stopped, version };
}
