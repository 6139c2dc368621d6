/** The program that `stepline serve` starts: a server until SIGTERM or SIGINT. Its options are JSON in the first word. */

import process from "node:process";
import { DoorServer, type ServeOptions } from "./server.ts";

const server = new DoorServer(JSON.parse(process.argv[2] ?? "{}") as ServeOptions);
// A request to a stage that does not answer would keep the process for as long as it may take.
const end = () => void server.end().then(() => process.exit());
for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, end);
server.listen().then(
  (url) => console.log(JSON.stringify({ level: "info", event: "listening", url })),
  (error: Error) => {
    console.error(JSON.stringify({ level: "error", event: "not_listening", error: error.message }));
    process.exit(1);
  },
);
