/**
 * Packs a package of this workspace, and installs it in a fresh project with only its peers. With STEPLINE_DIST it takes the one
 * that `make dist` put into this folder.
 */

import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const WEB = join(import.meta.dirname, "../..");

/** Return the file of a package in a folder of them. */
function find(folder: string, name: string): string {
  const [found] = readdirSync(folder).filter((file) => file.startsWith(`${name.slice(1).replace("/", "-")}-`));
  return join(folder, found ?? "");
}

export class FreshProject {
  readonly folder = mkdtempSync(join(tmpdir(), "stepline-packed-"));
  readonly manifest: Readonly<Record<string, Record<string, string>>>;

  constructor(name: string) {
    const packed = process.env.STEPLINE_DIST ? find(process.env.STEPLINE_DIST, name) : this.#pack(name);
    writeFileSync(join(this.folder, "package.json"), JSON.stringify({ private: true, type: "module" }));
    // Without its peers the package needs no registry.
    this.#run(this.folder, "npm", "install", "--offline", "--no-audit", "--legacy-peer-deps", packed);
    this.manifest = JSON.parse(readFileSync(join(this.folder, "node_modules", name, "package.json"), "utf8"));
    for (const peer of readdirSync(join(WEB, "node_modules"))) this.#link(peer);
  }

  /** Check the types of a module of the project, and return what it prints. */
  use(source: string): string {
    this.check(source);
    return this.#run(this.folder, "node", "use.ts");
  }

  /** Check the types of a module of the project. */
  check(source: string): void {
    writeFileSync(join(this.folder, "use.ts"), source);
    const strict = ["--strict", "--noEmit", "--skipLibCheck", "--target", "es2023", "--module", "nodenext"];
    this.#run(this.folder, join(WEB, "node_modules/.bin/tsc"), ...strict, "--types", "node", "use.ts");
  }

  remove(): void {
    rmSync(this.folder, { recursive: true });
  }

  #pack(name: string): string {
    const [packed] = JSON.parse(this.#run(WEB, "npm", "pack", "--json", "-w", name, "--pack-destination", this.folder));
    return `./${packed.filename}`;
  }

  #link(peer: string): void {
    if (peer.startsWith(".") || peer.startsWith("@stepline")) return;
    symlinkSync(join(WEB, "node_modules", peer), join(this.folder, "node_modules", peer));
  }

  #run(folder: string, command: string, ...given: string[]): string {
    return execFileSync(command, given, { cwd: folder, encoding: "utf8" });
  }
}
