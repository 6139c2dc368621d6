/** Files in the thread: pictures that came with a message or were created, and files with the same name. */

import type { FileRow, Round } from "../../src/thread/thread.ts";
import { attached, call, done, file, message, round, thread } from "./build.ts";
import type { State } from "./fixtures.ts";

const image = { mime: "image/png" };
const chart = file("chart.png", 48_200, image);
const lost = file("lost.png", 9_000, image);
const table = file("totals.csv", 4_710, { mime: "text/csv" });

const made = (rounds: readonly Round[], files: readonly FileRow[], text: string) =>
  done("", rounds, text, {
    prompts: [
      message("What do these two show?", {
        attachments: [attached("roof.png", 812_000, "image/png"), attached("offer.pdf", 184_320, "application/pdf")],
      }),
      message("And this one?", { attachments: [{ ...attached("later.png", 9_000, "image/png"), path: "" }] }),
    ],
    files,
  });

const drew = [round(0, "I draw a chart.", { calls: [call("exec_tools.execute_code_python")] })];

export const fileStates: Readonly<Record<string, State>> = {
  "files-made": {
    thread: thread([made(drew, [chart, lost, table], "Here are the totals.")], { files: [chart, lost, table] }),
  },
  "files-in-answer": {
    thread: thread([made(drew, [chart], `The roof is flat.\n\n![The roof](${chart.path})\n\nSo it was last year.`)], {
      files: [chart],
    }),
  },
  "files-namesakes": {
    thread: thread(
      ["turn_1", "turn_2"].map((turnId) => ({ ...done("Write report.md", drew, "It is written."), turnId })),
      {
        files: ["turn_1", "turn_2"]
          .map((turnId) => file("report.md", 812, { path: `fi:${turnId}.outputs/report.md`, turnId }))
          .concat(file("other.md", 90)),
      },
    ),
  },
};
