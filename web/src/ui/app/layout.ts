/** The page's three layouts, by width. */

import { useEffect, useState } from "preact/hooks";

export type Width = "wide" | "middle" | "narrow";

const WIDE = "(min-width: 1120px)";
const MIDDLE = "(min-width: 720px)";

export function useWidth(): Width {
  const [width, setWidth] = useState(readWidth);
  useEffect(() => {
    const queries = [matchMedia(WIDE), matchMedia(MIDDLE)];
    let prints = false;
    // Print shows plan and files below the thread, however wide the window and the sheet are.
    const look = () => setWidth(prints ? "wide" : readWidth());
    const print = (event: Event) => {
      prints = event.type === "beforeprint";
      look();
    };
    for (const query of queries) query.addEventListener("change", look);
    addEventListener("beforeprint", print);
    addEventListener("afterprint", print);
    return () => {
      for (const query of queries) query.removeEventListener("change", look);
      removeEventListener("beforeprint", print);
      removeEventListener("afterprint", print);
    };
  }, []);
  return width;
}

function readWidth(): Width {
  if (matchMedia(WIDE).matches) return "wide";
  return matchMedia(MIDDLE).matches ? "middle" : "narrow";
}
