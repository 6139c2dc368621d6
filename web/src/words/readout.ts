/** The readout of the title bar in words. */

import type { Readout } from "../thread/select.ts";
import { en, inLine } from "./en/shared.ts";
import { formatTime } from "./format.ts";

export function sayReadout(readout: Readout): string {
  const say = en.readout;
  switch (readout.is) {
    case "idle":
    case "stopping":
      return say[readout.is];
    case "ending":
      return say.ending(readout.left);
    case "inLine":
      return inLine(readout.place);
    default:
      return `${say.round(readout.round)} · ${doing(readout)}`;
  }
}

function doing(readout: Exclude<Readout, { is: "idle" | "stopping" | "ending" | "inLine" }>): string {
  const say = en.readout;
  switch (readout.is) {
    case "writing":
      return say.writing(readout.name);
    case "calling":
      return readout.toolId;
    case "provider":
      return say.provider(formatTime(readout.until));
    default:
      return say[readout.is];
  }
}
