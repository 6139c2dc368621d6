/** Changes that preserve identity: the same object is returned if nothing differs. */

/** Return the object with other fields, or the object itself if they are the same already. */
export function changed<T extends object>(value: T, fields: Partial<T>): T {
  for (const name of Object.keys(fields) as (keyof T)[]) {
    if (!Object.is(value[name], fields[name])) return { ...value, ...fields };
  }
  return value;
}

/** Return the list with another value at a position, or the list itself if it is the same value. */
export function replaced<T>(list: readonly T[], at: number, value: T): readonly T[] {
  return list[at] === value ? list : list.with(at, value);
}

/** Return the list with the last match changed, or the list itself if none matches. */
export function changedLast<T>(list: readonly T[], matches: (one: T) => boolean, change: (one: T) => T): readonly T[] {
  const at = list.findLastIndex(matches);
  return at < 0 ? list : replaced(list, at, change(list[at] as T));
}

/** Return the list without the matches, or the list itself if none matches. */
export function without<T>(list: readonly T[], matches: (one: T) => boolean): readonly T[] {
  return list.some(matches) ? list.filter((one) => !matches(one)) : list;
}
