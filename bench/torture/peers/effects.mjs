// The contract of bench/torture/effects.py: a line in the ledger, then what the folder's files ask for.
import { appendFileSync, existsSync, rmSync } from "node:fs";

const folder = process.env.TORTURE_EFFECTS;

export async function effect(done, word) {
  appendFileSync(`${folder}/ledger`, `${word}\n`);
  const kill = `${folder}/kill.${word}`;
  if (existsSync(kill)) {
    rmSync(kill);
    process.kill(process.pid, "SIGKILL");
  }
  while (existsSync(`${folder}/hold.${word}`)) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return `${done} ${word}`;
}
