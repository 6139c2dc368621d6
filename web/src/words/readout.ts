/** The readout of the title bar in words. */

import type { Readout } from "../thread/select.ts";
import { en, inLine, retryIn } from "./en/shared.ts";

/** Return the words for the current activity. */
export function sayReadout(readout: Readout, now: number): string {
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
      return `${say.round(readout.round)} · ${doing(readout, now)}`;
  }
}

function doing(readout: Exclude<Readout, { is: "idle" | "stopping" | "ending" | "inLine" }>, now: number): string {
  const say = en.readout;
  switch (readout.is) {
    case "writing":
      return say.writing(readout.name);
    case "calling":
      return readout.toolId;
    case "provider":
      return say.busy(retryIn(readout.until - now, readout.attempt, readout.attempts));
    default:
      return say[readout.is];
  }
}
