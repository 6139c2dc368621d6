/** Parts of a body: checks, and refusals that name the part. */

import { Refusal } from "../refusal.ts";

export type Fields = Readonly<Record<string, unknown>>;

/** A refusal that names a part of the body, such as `input[0].content[1]`. */
export class BodyRefusal extends Refusal {
  readonly param: string;

  constructor(code: string, param: string, message: string) {
    super(400, code, message);
    this.param = param;
  }
}

export function badField(param: string, message = "It has another type."): BodyRefusal {
  return new BodyRefusal("bad_message", param, `\`${param}\` cannot be used: ${message}`);
}

export function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Return a text, "" if there is none. Throws BodyRefusal. */
export function textIn(given: Fields, name: string): string {
  const value = given[name] ?? "";
  if (typeof value !== "string") throw badField(name);
  return value;
}

/** Return a flag, false if there is none. Throws BodyRefusal. */
export function flagIn(given: Fields, name: string): boolean {
  const value = given[name] ?? false;
  if (typeof value !== "boolean") throw badField(name);
  return value;
}
