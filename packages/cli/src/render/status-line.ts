/** What the turn's model server is doing, while the turn waits for it: one line that counts at a terminal, plain lines otherwise. */
import { duration } from '@breakfall/faults'
import type { SessionEventOf } from '@breakfall/wire'
import type { Output } from './output.ts'

type ServerEvent = SessionEventOf<'model-server'>

/** `the model server is loading for 12 s: <last stderr line>` */
export function serverLine({ state, since, at, line }: ServerEvent, moreMs = 0): string {
  const ms = Math.max(0, Date.parse(at) - Date.parse(since) + moreMs)
  return `the model server: ${STATES[state]} for ${duration(ms - (ms % 1_000))}${line === undefined ? '' : `: ${line}`}`
}

export class StatusLine implements Disposable {
  readonly #out: Output
  #timer: NodeJS.Timeout | undefined

  constructor(out: Output) {
    this.#out = out
  }

  show(event: ServerEvent): void {
    this.#stop()
    this.#out.status(`… ${serverLine(event)}`)
    if (!this.#out.isTerminal) return
    const shownAt = performance.now()
    this.#timer = setInterval(() => this.#out.status(`… ${serverLine(event, performance.now() - shownAt)}`), 1_000)
    this.#timer.unref()
  }

  /** Something else follows. */
  [Symbol.dispose](): void {
    this.#stop()
  }

  #stop(): void {
    clearInterval(this.#timer)
  }
}

// ---- details ----

const STATES: Readonly<Record<ServerEvent['state'], string>> = {
  loading: 'loading',
  ready: 'ready',
  busy: 'busy',
  hung: 'hung',
  restarting: 'restarting',
  given_up: 'given up',
}
