/** Numbers, sizes, durations and times for people, by `Intl`. Every function is pure: the time is an argument. */

const LOCALE = "en";

const plain = new Intl.NumberFormat(LOCALE);
const tenths = new Intl.NumberFormat(LOCALE, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const significant = new Intl.NumberFormat(LOCALE, { maximumSignificantDigits: 3 });
const upToTenths = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 1 });
const dollars = new Intl.NumberFormat(LOCALE, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const parts = new Intl.NumberFormat(LOCALE, { minimumFractionDigits: 2, maximumFractionDigits: 4 });
const percent = new Intl.NumberFormat(LOCALE, { style: "percent", maximumFractionDigits: 0 });
const time = new Intl.DateTimeFormat(LOCALE, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const utc = new Intl.DateTimeFormat("en-GB", {
  ...({ day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" } as const),
  ...({ hourCycle: "h23", timeZone: "UTC" } as const),
});
const day = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short" });
const relative = new Intl.RelativeTimeFormat(LOCALE);
const ordinal = new Intl.PluralRules(LOCALE, { type: "ordinal" });

/** Return a whole number with separators: `9,512`. */
export function formatNumber(value: number): string {
  return plain.format(value);
}

/** Return a quantity whose small values matter: `1,204`, `3.25`, `0.00042`. */
export function formatQuantity(value: number): string {
  return (value < 100 ? significant : plain).format(value < 100 ? value : Math.round(value));
}

/** Return a fraction as a percentage: `0.55` as `55%`. */
export function formatPercent(share: number): string {
  return percent.format(share);
}

/** Return dollars: `$12.40`, `$0.0042`; an amount below a hundredth of a cent is shown as such. */
export function formatUsd(usd: number): string {
  if (usd > 0 && usd < 0.00005) return "<$0.0001";
  return `$${(usd < 1 ? parts : dollars).format(usd)}`;
}

/** Return a day and a time in UTC, as limits are counted in UTC: `1 Dec, 00:00 UTC`. */
export function formatUtc(at: number): string {
  return `${utc.format(at)} UTC`;
}

/** Return an ordinal: `1st`, `2nd`, `3rd`, `4th`. */
export function formatOrdinal(value: number): string {
  const ends: Partial<Record<Intl.LDMLPluralRule, string>> = { one: "st", two: "nd", few: "rd" };
  return `${plain.format(value)}${ends[ordinal.select(value)] ?? "th"}`;
}

/** Return a size: `812 B`, `14.8 KB`, `3.2 MB`; a kilobyte has 1,024 bytes. */
export function formatBytes(bytes: number): string {
  return scaled(bytes, 1024, [" B", " KB", " MB", " GB"]);
}

/** Return a number of tokens: `812`, `14.8k`, `81k`, `1.2M`. */
export function formatTokens(tokens: number): string {
  return scaled(tokens, 1000, ["", "k", "M", "G"]);
}

/**
 * Return a number in the first unit in which it is below `base`, with one decimal while it has at most two digits
 * before it.
 */
function scaled(value: number, base: number, units: readonly string[]): string {
  let size = value;
  let unit = 0;
  while (unit < units.length - 1 && Math.round(size) >= base) {
    size /= base;
    unit += 1;
  }
  const digits = unit === 0 || size >= 99.95 ? plain.format(Math.round(size)) : upToTenths.format(size);
  return `${digits}${units[unit]}`;
}

/** Return a past duration: `142 ms`, `3.2 s`, `2 min 5 s`, `1 h 4 min`. */
export function formatMs(ms: number): string {
  if (ms < 1000) return `${plain.format(Math.round(ms))} ms`;
  if (ms < 59_950) return `${tenths.format(ms / 1000)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const minutes = Math.round(seconds / 60);
  return `${plain.format(Math.floor(minutes / 60))} h ${minutes % 60} min`;
}

/** Return a counter that starts at 0: `00:14.2`, with an hour `1:00:14`. */
export function formatClock(ms: number): string {
  const counted = Math.floor(Math.max(ms, 0) / 100);
  const seconds = Math.floor(counted / 10);
  const minutes = Math.floor(seconds / 60);
  if (minutes >= 60) return `${Math.floor(minutes / 60)}:${padded(minutes % 60)}:${padded(seconds % 60)}`;
  return `${padded(minutes)}:${padded(seconds % 60)}.${counted % 10}`;
}

/** Return a day: `Thu 3 Dec`. */
export function formatDay(at: number): string {
  const of = new Map(day.formatToParts(at).map((part) => [part.type, part.value]));
  return `${of.get("weekday")} ${of.get("day")} ${of.get("month")}`;
}

/** Return how far off a time is: `in 7 days`, `in 3 hours`, `in 12 minutes`, `in 40 seconds`. */
export function formatIn(ms: number): string {
  const seconds = Math.max(Math.ceil(ms / 1000), 0);
  if (seconds < 90) return relative.format(seconds, "second");
  if (seconds < 90 * 60) return relative.format(Math.round(seconds / 60), "minute");
  return seconds < 36 * 3600
    ? relative.format(Math.round(seconds / 3600), "hour")
    : relative.format(Math.round(seconds / 86_400), "day");
}

/** Return the time of day: `09:14`. */
export function formatTime(at: number): string {
  return time.format(at);
}

function padded(value: number): string {
  return String(value).padStart(2, "0");
}
