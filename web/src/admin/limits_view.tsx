/**
 * The form in which an admin sets limits: of the tenant, of the project and of one user, with the switch that stops
 * everything.
 */

import { useEffect, useId, useState } from "preact/hooks";
import type { HttpApi, NewLimits, OwnStanding, ScopeStanding } from "../api/index.ts";
import { visible } from "../markdown/index.ts";
import { say } from "../words/en/limits.ts";
import { formatBytes, formatNumber, formatUsd, formatUtc } from "../words/format.ts";
import { wordsOf } from "../words/index.ts";
import { FIELDS, type FieldName, type Form, formOf, limitsOf, wrongFields } from "./fields.ts";

type Api = Pick<
  HttpApi,
  | "readLimits"
  | "readTenantLimits"
  | "writeTenantLimits"
  | "readProjectLimits"
  | "writeProjectLimits"
  | "readUserLimits"
  | "writeUserLimits"
>;

/** Reads and writes the limits of one account. */
interface Account {
  readonly key: string;
  readonly title: string;
  read(): Promise<ScopeStanding>;
  write(limits: NewLimits): Promise<ScopeStanding>;
}

const codeOf = (error: unknown): string => (error as { code?: string }).code ?? "internal";

export function LimitsView({ api, onClose }: { api: Api; onClose: () => void }) {
  const [own, setOwn] = useState<OwnStanding | null>(null);
  const [refusal, setRefusal] = useState("");
  const [user, setUser] = useState("");
  useEffect(() => {
    api.readLimits().then(setOwn, (error: unknown) => setRefusal(wordsOf(codeOf(error))));
  }, [api]);
  return (
    <div class="limits">
      <header>
        <h2>{say.title}</h2>
        <button type="button" class="act" onClick={onClose}>
          {say.close}
        </button>
      </header>
      <p class="aside">{say.intro}</p>
      {refusal && <p role="alert">{refusal}</p>}
      {own && accountsOf(api, own).map((account) => <AccountForm key={account.key} account={account} />)}
      {own && (
        <>
          <AskUser onAsk={setUser} />
          {user && <AccountForm key={`user ${user}`} account={userOf(api, own, user)} />}
        </>
      )}
    </div>
  );
}

function accountsOf(api: Api, { tenant, project, role }: OwnStanding): readonly Account[] {
  const all: Account[] = [];
  if (role === "tenant_admin") {
    all.push({
      key: "tenant",
      title: say.tenantOf(visible(tenant)),
      read: () => api.readTenantLimits(tenant),
      write: (limits) => api.writeTenantLimits(tenant, limits),
    });
  }
  all.push({
    key: "project",
    title: say.projectOf(visible(project)),
    read: () => api.readProjectLimits(tenant, project),
    write: (limits) => api.writeProjectLimits(tenant, project, limits),
  });
  return all;
}

function userOf(api: Api, { tenant, project }: OwnStanding, user: string): Account {
  return {
    key: `user ${user}`,
    title: say.userOf(visible(user)),
    read: () => api.readUserLimits(tenant, project, user),
    write: (limits) => api.writeUserLimits(tenant, project, user, limits),
  };
}

function AskUser({ onAsk }: { onAsk: (user: string) => void }) {
  const [name, setName] = useState("");
  return (
    <form
      class="ask-user"
      onSubmit={(event) => {
        event.preventDefault();
        onAsk(name.trim());
      }}
    >
      <label>
        {say.userName}
        <input value={name} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <button type="submit" class="act">
        {say.show}
      </button>
    </form>
  );
}

function AccountForm({ account }: { account: Account }) {
  const [current, setCurrent] = useState<ScopeStanding | null>(null);
  const [form, setForm] = useState<Form | null>(null);
  const [said, setSaid] = useState("");
  const take = (found: ScopeStanding) => {
    setCurrent(found);
    setForm(formOf(found.given));
  };
  const refuse = (error: unknown) => setSaid(wordsOf(codeOf(error)));
  useEffect(() => {
    account.read().then(take, refuse);
  }, [account.key]);
  if (!current || !form) return <p role="status">{said || say.reading}</p>;
  const wrong = wrongFields(form);
  const save = async () => {
    if (wrong.length > 0) return;
    setSaid(say.saving);
    try {
      take(await account.write(limitsOf(form, current.version, say.noReason)));
      setSaid(say.saved);
    } catch (error) {
      refuse(error);
      // Limits that another admin has set meanwhile are shown before they are replaced.
      if (codeOf(error) === "limits_changed") account.read().then(take, refuse);
    }
  };
  return (
    <form
      class="account"
      aria-label={account.title}
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      <h3>
        {account.title}
        {current.limits.stopped && <span class="pill bad">{say.isStopped}</span>}
      </h3>
      {FIELDS.map(({ name }) => (
        <LimitField
          key={name}
          name={name}
          current={current}
          text={form.texts[name]}
          wrong={wrong.includes(name)}
          onText={(text) => setForm({ ...form, texts: { ...form.texts, [name]: text } })}
        />
      ))}
      <StopSwitch form={form} setForm={setForm} />
      <p class="aside">
        {say.endsAt(formatUtc(Date.parse(current.day_ends_at)), formatUtc(Date.parse(current.month_ends_at)))}
      </p>
      <div class="account-acts">
        <span role="status">{wrong.length > 0 ? say.wrong : said}</span>
        <button type="submit" class="act main" disabled={wrong.length > 0}>
          {say.save}
        </button>
      </div>
    </form>
  );
}

interface LimitFieldProps {
  readonly name: FieldName;
  readonly current: ScopeStanding;
  readonly text: string;
  readonly wrong: boolean;
  readonly onText: (text: string) => void;
}

function LimitField({ name, current, text, wrong, onText }: LimitFieldProps) {
  const field = FIELDS.find((one) => one.name === name);
  const holds = current.limits[name];
  const used = field?.used ? current.used[field.used] : undefined;
  const id = useId();
  return (
    <p class="limit">
      <label for={id}>{say.fields[name]}</label>
      <input
        id={id}
        inputMode="decimal"
        value={text}
        aria-invalid={wrong}
        placeholder={holds === null || holds === undefined ? say.none : String(holds / (field?.scale ?? 1))}
        onInput={(event) => onText(event.currentTarget.value)}
      />
      <span class="num">{used === undefined ? "" : say.used(sayAmount(name, used))}</span>
    </p>
  );
}

function sayAmount(name: FieldName, amount: number): string {
  if (name.startsWith("usd")) return formatUsd(amount);
  return name === "storage_bytes" ? formatBytes(amount) : formatNumber(amount);
}

function StopSwitch({ form, setForm }: { form: Form; setForm: (form: Form) => void }) {
  return (
    <div class="stops">
      <label class="check">
        <input
          type="checkbox"
          checked={form.stops}
          onChange={(event) => setForm({ ...form, stops: event.currentTarget.checked })}
        />
        {say.stopAll}
      </label>
      {form.stops && (
        <label>
          {say.reason}
          <input
            value={form.reason}
            maxLength={200}
            onInput={(event) => setForm({ ...form, reason: event.currentTarget.value })}
          />
        </label>
      )}
    </div>
  );
}
