/**
 * What the turn waits for: its model server, or a model that cannot be reached yet. One line that changes at a terminal; otherwise
 * plain lines, and few of them.
 */
import { duration } from '@breakfall/faults/internal'
import type { SessionEventOf } from '@breakfall/wire'
import type { Output } from '../../terminal/output.ts'
import { utcTime } from '../../text/amounts.ts'

type ServerEvent = SessionEventOf<'model-server'>

/** `the model server is loading for 12 s: <last stderr line>` */
export function serverLine({ state, since, at, line }: ServerEvent, moreMs = 0): string {
  const ms = Math.max(0, Date.parse(at) - Date.parse(since) + moreMs)
  return `the model server: ${STATES[state]} for ${duration(ms - (ms % 1_000))}${line === undefined ? '' : `: ${line}`}`
}

type RetryEvent = SessionEventOf<'retry'>

/** A series of retries that cost nothing, for one reason. */
type Series = { readonly reason: string; readonly since: number; readonly attempts: number; readonly shownAt: number }

/** `retrying for 12 s (attempt 9), until 12:02:00 UTC: model_unreachable: connect ECONNREFUSED` */
function retryLine({ reason, since, attempts }: Series, at: number, until: string): string {
  const more = attempts === 1 ? '' : ` for ${duration(Math.max(0, at - since))} (attempt ${attempts})`
  const end = until === '' ? '' : `${more === '' ? '' : ','} until ${until}`
  return `⚡ retrying${more}${end}: ${reason}`
}

export class StatusLine implements Disposable {
  readonly #out: Output
  #timer: NodeJS.Timeout | undefined
  #series: Series | undefined
  readonly #patienceMs: number | undefined
  /** Since when the model has been away, whatever the reasons. */
  #awaySince: number | undefined

  /** `patienceMs`: for how long retries may cost nothing, if that is known. */
  constructor(out: Output, patienceMs?: number) {
    this.#out = out
    this.#patienceMs = patienceMs
  }

  show(event: ServerEvent): void {
    this.#stop()
    this.#out.status(`… ${serverLine(event)}`)
    if (!this.#out.isTerminal) return
    const shownAt = performance.now()
    this.#timer = setInterval(() => this.#out.status(`… ${serverLine(event, performance.now() - shownAt)}`), 1_000)
    this.#timer.unref()
  }

  /** A retry that cost nothing. There may be one every few seconds for minutes. */
  showFreeRetry({ fault, at }: RetryEvent): void {
    this.#stop()
    const now = Date.parse(at)
    const reason = `${fault.category}: ${(fault.errorRaw.trim().split('\n')[0] ?? '').slice(0, 160)}`
    const before = this.#series?.reason === reason ? this.#series : undefined
    const isDue = before === undefined || this.#out.isTerminal || now - before.shownAt >= REPEAT_MS
    this.#series = {
      reason,
      since: before?.since ?? now,
      attempts: (before?.attempts ?? 0) + 1,
      shownAt: isDue ? now : before.shownAt,
    }
    this.#awaySince ??= now
    if (isDue) this.#out.status(retryLine(this.#series, now, this.#until(this.#awaySince)))
  }

  #until(since: number): string {
    return this.#patienceMs === undefined ? '' : utcTime(new Date(since + this.#patienceMs).toISOString()).slice(11)
  }

  /** Something else follows. */
  [Symbol.dispose](): void {
    this.#series = undefined
    this.#awaySince = undefined
    this.#stop()
  }

  #stop(): void {
    clearInterval(this.#timer)
  }
}

// ---- details ----

const REPEAT_MS = 30_000 // without a terminal: often enough to show that it is alive

const STATES: Readonly<Record<ServerEvent['state'], string>> = {
  loading: 'loading',
  ready: 'ready',
  busy: 'busy',
  hung: 'hung',
  restarting: 'restarting',
  given_up: 'given up',
}
