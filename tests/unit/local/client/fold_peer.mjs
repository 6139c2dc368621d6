// Plays one vector a line with the fold in TypeScript, and prints what it made of it. Node strips the types by itself.
import { createInterface } from "node:readline";
import { playFold } from "../../../../web/tests/client/play.ts";

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(playFold(JSON.parse(line))));
}
