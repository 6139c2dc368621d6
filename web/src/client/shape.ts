/** Readers of decoded JSON: each returns the value it expects, or throws TypeError. */

/** Reads one value; `name` is the field's name, for the error. */
export type Read<T = unknown> = (value: unknown, name?: string) => T;

export type Fields = Readonly<Record<string, unknown>>;

/** Readers by field name, each with the value for an absent field. A field without one is required. */
export type Shape = Readonly<Record<string, readonly [read: Read, otherwise?: unknown]>>;

/** Return a reader of objects; fields that are not in the shape are left out. */
export function struct(shape: Shape): Read<Fields> {
  const rows = Object.entries(shape);
  return (value, name) => {
    const fields = object(value, name);
    const read = rows.map(([field, [reader, otherwise]]) => {
      const given = fields[field];
      return [field, given === undefined && otherwise !== undefined ? otherwise : reader(given, field)];
    });
    return Object.fromEntries(read);
  };
}

/** Return a reader of arrays. */
export function list<T>(read: Read<T>): Read<readonly T[]> {
  return (value, name) => {
    if (Array.isArray(value)) return value.map((one) => read(one, name));
    throw unexpected(name, "an array");
  };
}

/** Return a reader of one of these texts. Any other comes from a later release. */
export function oneOf(...known: readonly string[]): Read<string> {
  return (value, name) => {
    const read = text(value, name);
    if (known.includes(read)) return read;
    throw unexpected(name, `one of ${known.join(", ")}`);
  };
}

export function object(value: unknown, name?: string): Fields {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Fields;
  throw unexpected(name, "an object");
}

export function text(value: unknown, name?: string): string {
  if (typeof value === "string") return value;
  throw unexpected(name, "a string");
}

export function int(value: unknown, name?: string): number {
  if (Number.isInteger(value)) return value as number;
  throw unexpected(name, "an integer");
}

export function flag(value: unknown, name?: string): boolean {
  if (typeof value === "boolean") return value;
  throw unexpected(name, "a boolean");
}

function unexpected(name: string | undefined, kind: string): TypeError {
  return new TypeError(`${name ? `${name}: ` : ""}expected ${kind}`);
}
