/**
 * Recognizes logical paths. The grammar is that of docs/reference/paths.md (`stepline/model/path.py`), without the
 * namespaces of bundles, which a page does not know.
 */

const TURN = "turn_[A-Za-z0-9_-]{1,64}";
const WORD = "[A-Za-z0-9_-]{1,128}";
const PLAN = "[A-Za-z0-9_:-]{1,200}";
const NUMBER = "(?:0|[1-9][0-9]{0,8})";
const SEGMENT = "[A-Za-z0-9][A-Za-z0-9_-]{0,63}";

/** Each has at most one group: the part that is a relative name. */
const FORMS: Readonly<Record<string, readonly RegExp[]>> = {
  fi: [
    new RegExp(`^${TURN}\\.(?:files|outputs)/(.+)$`, "su"),
    new RegExp(`^${TURN}\\.user\\.attachments/([^/]+)$`, "su"),
    new RegExp(`^${TURN}\\.external\\.${WORD}\\.attachments/${WORD}/([^/]+)$`, "su"),
    new RegExp(`^${TURN}\\.code\\.${WORD}$`, "u"),
  ],
  ar: [
    new RegExp(`^plan\\.latest:${PLAN}$`, "u"),
    new RegExp(`^${TURN}\\.user\\.(?:prompt|followup|steer)(?:\\.${WORD})?$`, "u"),
    new RegExp(`^${TURN}\\.assistant\\.completion(?:\\.${NUMBER}|\\.attempt\\.${NUMBER}(?:\\.outcome)?)?$`, "u"),
    new RegExp(`^${TURN}\\.external\\.${WORD}\\.(?:preserved\\.${NUMBER}|${WORD})$`, "u"),
    new RegExp(`^${TURN}\\.(?:system\\.message\\.${WORD}|feedback\\.latest|artifacts\\.summary)$`, "u"),
    new RegExp(
      `^${TURN}\\.react\\.(?:(?:notes|round\\.start)\\.${WORD}|decision\\.raw(?:\\.interrupted)?\\.${NUMBER})$`,
      "u",
    ),
    new RegExp(`^${TURN}\\.react\\.(?:thinking|plan\\.ack|mid_turn\\.compaction|note\\.preserved)\\.${NUMBER}$`, "u"),
    new RegExp(
      `^${TURN}\\.react\\.(?:plan\\.(?:history|${PLAN}(?:\\.carry)?)|turn\\.(?:finalize|index)|state|exit)$`,
      "u",
    ),
    new RegExp(`^${TURN}\\.react\\.workspace\\.(?:checkout|publish)$`, "u"),
  ],
  tc: [new RegExp(`^${TURN}\\.${WORD}\\.(?:call|result|notice(?:\\.${NUMBER})?|view\\.${NUMBER})$`, "u")],
  so: [/^sources_pool(?:\[[0-9,\- ]+\])?$/u],
  su: [new RegExp(`^${TURN}\\.conv\\.range\\.summary(?:\\.${NUMBER})?$`, "u")],
  ws: [new RegExp(`^${TURN}\\.conv\\.working\\.summary(?:\\.attempt\\.${NUMBER})?$`, "u")],
  sk: [
    /^(?:(?:SK)?[1-9][0-9]{0,3}|hidden-guidance-[0-9a-f]{10}|(?:[A-Za-z0-9_-]{1,64}\.[A-Za-z0-9]|[A-Za-z])[A-Za-z0-9_-]{0,127})(?:\/(.+))?$/su,
  ],
  ks: [/^(.+)$/su],
};

/** The families whose paths may name a conversation. */
const LOGGED = new Set(["ar", "tc", "fi", "su", "ws"]);
const FOREIGN = new RegExp(`^conv_(${SEGMENT})\\.(.+)$`, "su");

const TEXT_MAX_CHARS = 2048;
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\\]/u;
const RESERVED = /[<>:"|?*]/u;

function isRelative(rel: string): boolean {
  return rel
    .split("/")
    .every(
      (part) => part.replaceAll(".", "") !== "" && part.trim() === part && !part.endsWith(".") && !RESERVED.test(part),
    );
}

/** Return the text if it is a logical path of this conversation (or of none, such as a skill), else "". */
export function parsePath(text: string, conversation: string): string {
  const path = text.normalize("NFC").replace(/^conv:/, "");
  if (path === "" || path.length > TEXT_MAX_CHARS || HIDDEN.test(path)) return "";
  const colon = path.indexOf(":");
  const family = path.slice(0, colon);
  if (!Object.hasOwn(FORMS, family)) return "";
  let rest = path.slice(colon + 1);
  const foreign = LOGGED.has(family) ? FOREIGN.exec(rest) : null;
  if (foreign) {
    if (foreign[1] !== conversation) return "";
    rest = foreign[2] ?? "";
  }
  const fits = FORMS[family]?.some((form) => {
    const found = form.exec(rest);
    return found !== null && (found[1] === undefined || isRelative(found[1]));
  });
  return fits ? `${family}:${rest}` : "";
}
