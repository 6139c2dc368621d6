/** The page's three layouts, by width. */

import { useEffect, useState } from "preact/hooks";

export type Width = "wide" | "middle" | "narrow";

const WIDE = "(min-width: 1120px)";
const MIDDLE = "(min-width: 720px)";

export function useWidth(): Width {
  const [width, setWidth] = useState(readWidth);
  useEffect(() => {
    const queries = [matchMedia(WIDE), matchMedia(MIDDLE)];
    const look = () => setWidth(readWidth());
    for (const query of queries) query.addEventListener("change", look);
    return () => {
      for (const query of queries) query.removeEventListener("change", look);
    };
  }, []);
  return width;
}

function readWidth(): Width {
  if (matchMedia(WIDE).matches) return "wide";
  return matchMedia(MIDDLE).matches ? "middle" : "narrow";
}
