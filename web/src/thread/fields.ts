/** Reads event data, which has no guaranteed shape: a field of the wrong type counts as absent. */

export type Data = Readonly<Record<string, unknown>>;

export function textOf(data: Data, name: string): string {
  const value = data[name];
  return typeof value === "string" ? value : "";
}

export function numberOf(data: Data, name: string): number {
  return numberOrNull(data, name) ?? 0;
}

export function numberOrNull(data: Data, name: string): number | null {
  const value = data[name];
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

export function flagOf(data: Data, name: string): boolean {
  return data[name] === true;
}

export function objectOf(data: Data, name: string): Data {
  const value = data[name];
  return isObject(value) ? value : {};
}

/** Return the objects of a list. */
export function rowsOf(data: Data, name: string): readonly Data[] {
  const value = data[name];
  return Array.isArray(value) ? value.filter(isObject) : [];
}

export function textsOf(data: Data, name: string): readonly string[] {
  const value = data[name];
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}

export function numbersOf(data: Data, name: string): readonly number[] {
  const value = data[name];
  return Array.isArray(value) ? value.filter((one) => typeof one === "number") : [];
}

/** Return an ISO 8601 time in epoch milliseconds, or null. */
export function timeOrNull(text: string): number | null {
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : at;
}

export function timeOf(text: string): number {
  return timeOrNull(text) ?? 0;
}

function isObject(value: unknown): value is Data {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
