/** The readout of the title bar in words. */

import type { Readout } from "../thread/select";
import { en } from "./en";
import { formatTime } from "./format";

export function sayReadout(readout: Readout): string {
  const { shell, turn } = en;
  switch (readout.is) {
    case "idle":
      return shell.idle;
    case "stopping":
      return turn.stopping;
    case "ending":
      return turn.comingToAnEnd(readout.left);
    default:
      return `${turn.round(readout.round)} · ${doing(readout)}`;
  }
}

function doing(readout: Exclude<Readout, { is: "idle" | "stopping" | "ending" }>): string {
  const { turn } = en;
  switch (readout.is) {
    case "writing":
      return turn.writing(readout.name);
    case "calling":
      return readout.toolId;
    case "approval":
      return turn.waitsForYou;
    case "provider":
      return turn.waitsForProvider(formatTime(readout.until));
    default:
      return turn[readout.is];
  }
}
