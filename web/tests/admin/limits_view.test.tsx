// @vitest-environment happy-dom
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { formOf, limitsOf, wrongFields } from "../../src/admin/fields.ts";
import { LimitsView } from "../../src/admin/limits_view.tsx";
import { ApiError, type NewLimits, type OwnStanding, type ScopeStanding } from "../../src/api/index.ts";
import { settle } from "../ui-shell/scripted.ts";

let root: HTMLElement;
let given: ScopeStanding["given"];
let written: [string, NewLimits][];
let refusals: string[];

const scopeOf = (scope: ScopeStanding["scope"]): ScopeStanding => ({
  scope,
  given,
  limits: { usd_day: 5, ...given },
  version: 3,
  used: { usd_day: 1.25, turns: 2 },
  minute_ends_at: "2026-11-25T09:01:00Z",
  day_ends_at: "2026-11-26T00:00:00Z",
  month_ends_at: "2026-12-01T00:00:00Z",
});

function api(role: string) {
  const write = (name: string) => async (limits: NewLimits) => {
    const code = refusals.shift();
    if (code) throw new ApiError({ status: 412, code, detail: "" });
    written.push([name, limits]);
    given = { ...limits };
    return scopeOf("tenant");
  };
  const own = { scopes: [], tenant: "acme", project: "web", user: "ada", role } as OwnStanding;
  return {
    readLimits: async () => own,
    readTenantLimits: async () => scopeOf("tenant"),
    writeTenantLimits: (_: string, limits: NewLimits) => write("tenant")(limits),
    readProjectLimits: async () => scopeOf("project"),
    writeProjectLimits: (_: string, __: string, limits: NewLimits) => write("project")(limits),
    readUserLimits: async () => scopeOf("user"),
    writeUserLimits: (_: string, __: string, user: string, limits: NewLimits) => write(`user ${user}`)(limits),
  };
}

async function draw(role: string): Promise<void> {
  act(() => render(<LimitsView api={api(role)} onClose={() => undefined} />, root));
  await answered();
}

/** Let pending answers arrive, and then those to the requests that they cause. */
async function answered(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await act(settle);
}

const titles = () => [...root.querySelectorAll("form.account")].map((form) => form.getAttribute("aria-label"));
const field = (form: Element, name: string) => {
  const label = [...form.querySelectorAll("label")].find((one) => one.textContent?.startsWith(name));
  return (label?.querySelector("input") ?? document.getElementById(label?.htmlFor ?? "")) as HTMLInputElement;
};
const type = (input: HTMLInputElement, text: string) =>
  act(() => {
    input.value = text;
    input.dispatchEvent(new InputEvent("input", { bubbles: true }));
  });
const submit = async (form: Element) => {
  act(() => void form.dispatchEvent(new Event("submit", { bubbles: true, cancelable: true })));
  await answered();
};
const account = (name: string) => root.querySelector(`form[aria-label="${name}"]`) as Element;

beforeEach(() => {
  root = document.createElement("div");
  document.body.replaceChildren(root);
  given = { tokens_day: 1_000_000, storage_bytes: 5 * 1024 * 1024 };
  written = [];
  refusals = [];
});

afterEach(() => act(() => render(null, root)));

describe("the limits form of an account", () => {
  it("shows the tenant's limits to its admin, and the project's to everyone", async () => {
    await draw("tenant_admin");
    expect(titles()).toEqual(["Organization acme", "Project web"]);
    act(() => render(null, root));
    await draw("project_admin");
    expect(titles()).toEqual(["Project web"]);
  });

  it("shows the given limits, with defaults in grey, and the usage", async () => {
    await draw("project_admin");
    const form = account("Project web");
    expect(field(form, "Tokens per day").value).toBe("1000000");
    expect(field(form, "Storage in MB").value).toBe("5");
    expect(field(form, "Dollars per day")).toMatchObject({ value: "", placeholder: "5" });
    expect(field(form, "Dollars per month").placeholder).toBe("none");
    expect(form.textContent).toContain("$1.25 used");
    expect(form.textContent).toContain(
      "Daily budgets reset at 26 Nov, 00:00 UTC, monthly budgets at 1 Dec, 00:00 UTC.",
    );
  });

  it("replaces all limits, with the version that was read", async () => {
    await draw("project_admin");
    const form = account("Project web");
    type(field(form, "Dollars per day"), "2.5");
    type(field(form, "Tokens per day"), "");
    await submit(form);
    expect(written).toEqual([["project", { usd_day: 2.5, storage_bytes: 5 * 1024 * 1024, version: 3 }]]);
    expect(form.textContent).toContain("Saved. It applies from the next round.");
  });

  it("sends nothing if a field is not a number, and highlights the field", async () => {
    await draw("project_admin");
    const form = account("Project web");
    type(field(form, "Concurrent turns"), "1.5");
    expect(field(form, "Concurrent turns").getAttribute("aria-invalid")).toBe("true");
    await submit(form);
    expect(written).toEqual([]);
  });

  it("reads the limits again if another admin has changed them meanwhile", async () => {
    refusals = ["limits_changed"];
    await draw("project_admin");
    const form = account("Project web");
    type(field(form, "Dollars per day"), "9");
    given = { usd_day: 1 };
    await submit(form);
    expect(form.textContent).toContain("Someone else changed these limits.");
    expect(field(form, "Dollars per day").value).toBe("1");
  });
});

it("stops everything with the switch, with a reason that is never empty", async () => {
  await draw("tenant_admin");
  const form = account("Organization acme");
  const box = form.querySelector<HTMLInputElement>("input[type=checkbox]") as HTMLInputElement;
  act(() => box.click());
  await submit(form);
  expect(written[0]).toMatchObject(["tenant", { stopped: "Stopped by an administrator." }]);
  type(field(form, "Reason"), "unpaid");
  await submit(form);
  expect(written[1]).toMatchObject(["tenant", { stopped: "unpaid" }]);
});

it("shows a user's limits by name", async () => {
  await draw("project_admin");
  const form = root.querySelector("form.ask-user") as Element;
  type(form.querySelector("input") as HTMLInputElement, "bob@example.com");
  await submit(form);
  expect(titles()).toEqual(["Project web", "User bob@example.com"]);
});

it("converts limits to form fields and back without loss", () => {
  const form = formOf({ usd_month: 10.5, turns_at_once: 0, stopped: "" });
  expect(limitsOf(form, 1, "")).toEqual({ usd_month: 10.5, turns_at_once: 0, version: 1 });
  expect(wrongFields({ ...form, texts: { ...form.texts, usd_day: "-1", tokens_day: "many" } })).toEqual([
    "usd_day",
    "tokens_day",
  ]);
});
