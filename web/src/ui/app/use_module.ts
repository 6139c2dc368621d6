/** Parts of the page that are loaded when they are needed. */

import { useEffect, useState } from "preact/hooks";

const loaded = new Map<() => Promise<unknown>, unknown>();

/** Return what a module exports, null until it is there: at once if it was loaded before. Throws if it cannot be loaded, or calls `onFailure`. */
export function useModule<T>(load: () => Promise<T>, onFailure?: () => void): T | null {
  const [, setShown] = useState(0);
  const [failure, setFailure] = useState<unknown>(null);
  const module = (loaded.get(load) as T | undefined) ?? null;
  useEffect(() => {
    // What came between the picture and this moment is drawn as well.
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

/** Load a module now, so that whatever uses it has it at once. Throws what `load` throws. */
export async function loadOnce<T>(load: () => Promise<T>): Promise<T> {
  const module = await load();
  loaded.set(load, module);
  return module;
}
