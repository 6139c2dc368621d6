/** Parts of the page that load on demand. */

import { useEffect, useState } from "preact/hooks";

const loaded = new Map<() => Promise<unknown>, unknown>();

/**
 * Return a module's exports, or null until it has loaded; at once if it was loaded before. If loading fails, throws, or
 * calls `onFailure`.
 */
export function useModule<T>(load: () => Promise<T>, onFailure?: () => void): T | null {
  const [, setShown] = useState(0);
  const [failure, setFailure] = useState<unknown>(null);
  const module = (loaded.get(load) as T | undefined) ?? null;
  useEffect(() => {
    // The module may have loaded between the render and this effect.
    if (module !== null) return;
    let shown = true;
    loadOnce(load).then(
      () => shown && setShown((count) => count + 1),
      (error: unknown) => shown && (onFailure ? onFailure() : setFailure(error)),
    );
    return () => {
      shown = false;
    };
  }, [load, module]);
  if (failure !== null) throw failure;
  return module;
}

/** Load a module now, so that it is available at once later. Throws what `load` throws. */
export async function loadOnce<T>(load: () => Promise<T>): Promise<T> {
  const module = await load();
  loaded.set(load, module);
  return module;
}
