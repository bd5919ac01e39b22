/**
 * Keeps the secrets that this daemon knows out of everything it outputs. The redactor knows shapes of secrets; this knows values.
 *
 * I1  Of secrets that start at the same position, the longest is removed: one secret may be a prefix of another.
 * I2  Text that arrives in chunks is treated like the whole text, wherever it is cut: a possible start of a secret is held back
 *     until more arrives. That is nothing for nearly every chunk, and never as much as the longest secret.
 * I3  A secret is known as long as its owner is: the daemon, a runner, an MCP server or a session. Nothing else ends that, however
 *     many there are. What an owner had until its last change is known, too: it may still be quoted.
 * I4  What a session outputs is searched for the daemon's secrets and its own, so other sessions cost it nothing. Only a log line
 *     may be about any of them.
 */
import { redact } from '@breakfall/faults'

const GONE = '[redacted]'
const CHARS_MIN = 8 // shorter values would match ordinary words
const PLAIN_CHARS_MIN = 16 // and so would `lm-studio` or `not-needed`, which users set when no key is required

/** A fixed list of secrets. */
class SecretValues {
  readonly plain: readonly string[]
  /** Plain, and escaped for JSON. */
  readonly #known: readonly string[]
  /** The same, as they appear in our JSON. */
  readonly #inJson: readonly string[]
  #pattern: RegExp | undefined

  constructor(values: readonly string[]) {
    this.plain = [...new Set(values)]
    this.#known = [...new Set(this.plain.flatMap((value) => [value, escaped(value)]))]
    this.#inJson = this.#known.map(escaped)
  }

  scrub(text: string): string {
    return this.#isKnownIn(text) ? text.replace(this.#matches, GONE) : text
  }

  sayable(text: string): { readonly said: string; readonly held: string } {
    const hasSecret = this.#isKnownIn(text)
    let said = ''
    for (let at = 0; ;) {
      const heldFrom = this.#mayBegin(text, at)
      const found = hasSecret ? this.#find(text, at) : null
      if (found === null || found.index >= heldFrom)
        return { said: said + text.slice(at, heldFrom), held: text.slice(heldFrom) }
      said += text.slice(at, found.index) + GONE
      at = found.index + found[0].length
    }
  }

  lastOf(held: string): string {
    const isCut = (secret: string): boolean => held.length * 2 >= secret.length && secret.startsWith(held)
    return held.length >= CHARS_MIN && this.#known.some(isCut) ? GONE : this.scrub(held)
  }

  isIn(json: string): boolean {
    return this.#inJson.some((secret) => json.includes(secret))
  }

  cleaned(value: unknown): unknown {
    if (typeof value === 'string') return this.scrub(value)
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) return value.map((entry) => this.cleaned(entry))
    return Object.fromEntries(Object.entries(value).map(([name, entry]) => [this.scrub(name), this.cleaned(entry)]))
  }

  #isKnownIn(text: string): boolean {
    return this.#known.some((secret) => text.includes(secret))
  }

  /** Start of the longest suffix of the text that is a prefix of a secret. */
  #mayBegin(text: string, from: number): number {
    let earliest = text.length
    for (const secret of this.#known) {
      const first = secret.charAt(0)
      let at = text.indexOf(first, Math.max(from, text.length - secret.length + 1))
      while (at !== -1 && at < earliest && !secret.startsWith(text.slice(at))) at = text.indexOf(first, at + 1)
      if (at !== -1 && at < earliest) earliest = at
    }
    return earliest
  }

  #find(text: string, from: number): RegExpExecArray | null {
    this.#matches.lastIndex = from
    return this.#matches.exec(text)
  }

  get #matches(): RegExp {
    const longestFirst = (): string[] => this.#known.toSorted((a, b) => b.length - a.length) // I1
    this.#pattern ??= new RegExp(
      this.#known.length === 0
        ? '(?!)'
        : longestFirst()
            .map((value) => RegExp.escape(value))
            .join('|'),
      'g',
    )
    return this.#pattern
  }
}

/** Which of very many secrets are in a text: every secret has at least as many characters as the key that it is found by. */
class ValueIndex {
  /** How often each value is listed. */
  readonly #byStart = new Map<string, Map<string, number>>()

  /** A list of values in it, empty at first. */
  list(): Listed {
    let listed: readonly string[] = []
    return {
      replace: (values) => {
        for (const value of values) this.#count(value, 1)
        for (const value of listed) this.#count(value, -1)
        listed = values
      },
    }
  }

  /** Those that may be in a text that is JSON. */
  foundIn(json: string): readonly string[] {
    if (this.#byStart.size === 0) return []
    const found = new Set<string>()
    for (let at = 0; at + CHARS_MIN <= json.length; at += 1)
      for (const value of this.#byStart.get(json.slice(at, at + CHARS_MIN))?.keys() ?? []) found.add(value)
    return [...found]
  }

  #count(value: string, by: 1 | -1): void {
    for (const start of startsOf(value)) {
      const values = this.#byStart.get(start) ?? new Map<string, number>()
      const count = (values.get(value) ?? 0) + by
      if (count > 0) this.#byStart.set(start, values.set(value, count))
      else if (values.delete(value) && values.size === 0) this.#byStart.delete(start)
    }
  }
}

type Listed = { readonly replace: (values: readonly string[]) => void }

/** Removes the values that it knows from texts. */
export abstract class KnownSecrets {
  readonly #owners = new Map<string, { readonly now: readonly string[]; readonly before: readonly string[] }>()
  #own: SecretValues | undefined

  /** The values that an owner has from now on (I3). Empty, short and plain ones are ignored. */
  set(owner: string, values: readonly (string | undefined)[]): void {
    const now = values.filter((value) => value !== undefined).filter(isSecret)
    const before = this.#owners.get(owner)?.now ?? []
    if (new Set(now).symmetricDifference(new Set(before)).size === 0) return
    this.#owners.set(owner, { now, before })
    this.changed()
  }

  /** The owner is gone. */
  drop(owner: string): void {
    if (this.#owners.delete(owner)) this.changed()
  }

  /** Without those of the daemon, if this is a session. */
  get own(): SecretValues {
    this.#own ??= new SecretValues([...this.#owners.values()].flatMap(({ now, before }) => [...now, ...before]))
    return this.#own
  }

  /** Everything that its output must not contain. */
  abstract get values(): SecretValues

  /** The text without any known secret. Cheap if it contains none. */
  scrub(text: string): string {
    return this.values.scrub(text)
  }

  /** The same value without any known secret in its strings and keys. `json` is the value as JSON. */
  scrubValue<T>(value: T, json: string): T {
    return this.values.isIn(json) ? (this.values.cleaned(value) as T) : value
  }

  /** I2: what may be shown of an unfinished text, without any secret, and the end that must be held back. */
  sayable(text: string): { readonly said: string; readonly held: string } {
    return this.values.sayable(text)
  }

  /** The held end of a finished text: not a whole secret, but perhaps most of a truncated secret. */
  lastOf(held: string): string {
    return this.values.lastOf(held)
  }

  protected changed(): void {
    this.#own = undefined
  }
}

/** Those of the daemon itself. */
export class Secrets extends KnownSecrets {
  readonly #sessions = new Map<string, WeakRef<SessionSecrets>>()
  readonly #ofSessions = new ValueIndex()
  readonly #gone = new FinalizationRegistry<{ readonly id: string; readonly listed: Listed }>(({ id, listed }) => {
    if (this.#sessions.get(id)?.deref() === undefined) this.#sessions.delete(id)
    listed.replace([])
  })

  override get values(): SecretValues {
    return this.own
  }

  /** Those that a session's output must not contain. They are known as long as anybody holds what this returns (I3). */
  session(id: string): SessionSecrets {
    const known = this.#sessions.get(id)?.deref()
    if (known !== undefined) return known
    const listed = this.#ofSessions.list()
    const secrets = new SessionSecrets(this, listed)
    this.#sessions.set(id, new WeakRef(secrets))
    this.#gone.register(secrets, { id, listed })
    return secrets
  }

  /** For log lines, which are JSON: removes secrets by value and by shape. */
  scrubLine(line: string): string {
    const end = line.endsWith('\n') ? '\n' : ''
    const json = line.trimEnd()
    const found = this.#ofSessions.foundIn(json) // I4
    const values = found.length === 0 ? this.own : new SecretValues([...this.own.plain, ...found])
    return redact(values.isIn(json) ? JSON.stringify(values.cleaned(JSON.parse(json))) : json) + end
  }
}

/** Those of the daemon and of one session. */
export class SessionSecrets extends KnownSecrets {
  readonly #daemon: Secrets
  readonly #listed: Listed
  #all: { readonly daemons: SecretValues; readonly own: SecretValues; readonly both: SecretValues } | undefined

  constructor(daemon: Secrets, listed: Listed) {
    super()
    this.#daemon = daemon
    this.#listed = listed
  }

  override get values(): SecretValues {
    const [daemons, { own }] = [this.#daemon.own, this]
    if (own.plain.length === 0) return daemons
    if (this.#all?.daemons !== daemons || this.#all.own !== own)
      this.#all = { daemons, own, both: new SecretValues([...daemons.plain, ...own.plain]) }
    return this.#all.both
  }

  protected override changed(): void {
    super.changed()
    this.#listed.replace(this.own.plain)
  }
}

/** One text that arrives in chunks. A mark says which chunk a text came from. */
export class SecretStream<Mark> {
  readonly #secrets: KnownSecrets
  #held: { readonly text: string; readonly mark: Mark } | null = null

  constructor(secrets: KnownSecrets) {
    this.#secrets = secrets
  }

  /** What is held back, and the mark of its first chunk, or of an earlier one. */
  get held(): { readonly text: string; readonly mark: Mark } | null {
    return this.#held
  }

  /** What may be shown now, perhaps nothing, with the mark of its first chunk. */
  push(text: string, mark: Mark): { readonly text: string; readonly mark: Mark } {
    const before = this.#held
    const { said, held } = this.#secrets.sayable(before === null ? text : before.text + text)
    const begins = before !== null && held.length > text.length ? before.mark : mark
    this.#held = held === '' ? null : { text: held, mark: begins }
    return { text: said, mark: before?.mark ?? mark }
  }

  /** The text is complete: returns the rest. */
  end(): { readonly text: string; readonly mark: Mark } | null {
    const rest = this.#held
    this.#held = null
    return rest === null ? null : { ...rest, text: this.#secrets.lastOf(rest.text) }
  }
}

/** Of variables, the values of those that sound like keys. */
export const secretVariables = (env: Readonly<Record<string, string>> = {}): readonly string[] =>
  Object.entries(env).flatMap(([name, value]) => (/KEY|TOKEN|SECRET|PASSW|CREDENTIAL/i.test(name) ? [value] : []))

// ---- details ----

/** How a value may begin in JSON: escaped once, or twice. */
const startsOf = (value: string): ReadonlySet<string> =>
  new Set([escaped(value), escaped(escaped(value))].map((text) => text.slice(0, CHARS_MIN)))

function escaped(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}

const isSecret = (value: string): boolean =>
  value.length >= PLAIN_CHARS_MIN || (value.length >= CHARS_MIN && !/^[a-z _-]*$/.test(value))
