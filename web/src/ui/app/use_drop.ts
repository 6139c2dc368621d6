/** Accepts files that are dropped anywhere on the thread. */

import { useRef, useState } from "preact/hooks";
import type { Attachments } from "../attachments/attachments.ts";

/** Return handlers, and whether files are dragged over the thread. With null, no files are accepted. */
export function useDrop(attachments: Attachments | null) {
  const [over, setOver] = useState(false);
  // Entering a child also leaves its parent: only the sum shows whether the pointer is inside.
  const depth = useRef(0);
  const takes = (event: DragEvent) => attachments !== null && event.dataTransfer?.types.includes("Files");
  const count = (by: number) => {
    depth.current += by;
    setOver(depth.current > 0);
  };
  const handlers = {
    onDragEnter: (event: DragEvent) => takes(event) && count(1),
    onDragLeave: (event: DragEvent) => takes(event) && count(-1),
    onDragOver: (event: DragEvent) => takes(event) && event.preventDefault(),
    onDrop: (event: DragEvent) => {
      if (!takes(event)) return;
      event.preventDefault();
      depth.current = 0;
      setOver(false);
      attachments?.add([...(event.dataTransfer?.files ?? [])]);
    },
  };
  return { over, handlers };
}
