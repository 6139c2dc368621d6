/** Detects a window that is too narrow for three panels next to each other. */

import { useEffect, useState } from "preact/hooks";

const NARROW = "(max-width: 1119px)";

/** Return true below 1120 px; the component renders again when that changes. */
export function useNarrow(): boolean {
  const [narrow, setNarrow] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const query = matchMedia(NARROW);
    const changed = () => setNarrow(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return narrow;
}
