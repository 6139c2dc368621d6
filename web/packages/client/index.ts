/** The client of a stage's websocket, for pages and for Node. */

export * from "../../src/client/index.ts";
