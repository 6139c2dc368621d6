/** The user's settings. Nothing else is stored in the browser. */

import { Store } from "../store/store.ts";

export interface Settings {
  readonly theme: "system" | "light" | "dark";
  /** When an answer is read aloud: when it is complete, by paragraph, or never. */
  readonly reading: "complete" | "paragraph" | "none";
  /** Whether keys without a modifier, such as `j` or `n`, are active. */
  readonly letters: boolean;
  /** Whether desktop notifications report an approval or the end of a long turn while the page is hidden. */
  readonly notify: boolean;
}

export const DEFAULTS: Settings = { theme: "system", reading: "complete", letters: false, notify: false };

const KEY = "stepline.settings";
const THEMES: readonly string[] = ["system", "light", "dark"];
const READINGS: readonly string[] = ["complete", "paragraph", "none"];

/** The subset of `localStorage` in use. */
export interface SettingsStorage {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
}

/** Return a store of settings that starts with the stored ones, and stores each change. */
export function openSettings(storage: SettingsStorage | null): Store<Settings> {
  const settings = new Store(readSettings(storage));
  settings.subscribe(() => {
    try {
      storage?.setItem(KEY, JSON.stringify(settings.value));
    } catch {
      // Without storage, the settings last as long as the page is open.
    }
  });
  return settings;
}

function readSettings(storage: SettingsStorage | null): Settings {
  try {
    const stored: unknown = JSON.parse(storage?.getItem(KEY) ?? "{}");
    return typeof stored === "object" && stored !== null ? parseSettings(stored) : DEFAULTS;
  } catch {
    return DEFAULTS;
  }
}

function parseSettings(stored: { theme?: unknown; reading?: unknown; letters?: unknown; notify?: unknown }): Settings {
  return {
    theme: isOneOf(THEMES, stored.theme) ? (stored.theme as Settings["theme"]) : DEFAULTS.theme,
    reading: isOneOf(READINGS, stored.reading) ? (stored.reading as Settings["reading"]) : DEFAULTS.reading,
    letters: typeof stored.letters === "boolean" ? stored.letters : DEFAULTS.letters,
    notify: typeof stored.notify === "boolean" ? stored.notify : DEFAULTS.notify,
  };
}

function isOneOf(choices: readonly string[], value: unknown): boolean {
  return typeof value === "string" && choices.includes(value);
}

/** Set the theme of the page; `system` leaves it to the browser. */
export function applyTheme(root: HTMLElement, theme: Settings["theme"]): void {
  if (theme === "system") delete root.dataset.theme;
  else root.dataset.theme = theme;
}
