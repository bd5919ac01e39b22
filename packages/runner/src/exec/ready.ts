/** Watches a background exec until it is ready: it listens on a port, has printed a text, or simply has not ended. */
import { join } from 'node:path'
import type { Exec as ExecRecord } from '@breakfall/wire'
import { BACKGROUND_DEFAULTS, keepReadiness, type Readiness, readReadiness, TextSearch } from './background.ts'
import { type Stream, STREAMS } from './event-log.ts'
import type { ExecSetup } from './setup.ts'

/** What it needs of its exec. */
export type BackgroundExec = {
  readonly id: string
  readonly folder: string
  readonly setup: Pick<ExecSetup, 'reservation' | 'clock'>
  readonly isOver: boolean
  readonly startedAtMs: number | null
  ports(): readonly number[]
  /** Of its output, in the log. */
  bytes(stream: Stream): number
  logReady(ports: readonly number[]): void
  changed(signal: AbortSignal): Promise<void>
}

export class Background {
  readonly #exec: BackgroundExec
  readonly #searches: readonly { readonly stream: Stream; readonly search: TextSearch }[]
  #readiness: Readiness | undefined
  #timer: NodeJS.Timeout | undefined
  #waitedMs = 0

  constructor(exec: BackgroundExec) {
    this.#exec = exec
    const { ready } = this.#request
    this.#searches =
      ready !== undefined && 'text' in ready
        ? STREAMS.map((stream) => ({ stream, search: new TextSearch(join(exec.folder, stream), ready.text) }))
        : []
    this.#readiness = readReadiness(exec.folder)
  }

  get name(): string {
    return this.#request.name ?? this.#exec.id
  }

  get isReady(): boolean {
    return this.#readiness !== undefined
  }

  get record(): NonNullable<ExecRecord['background']> {
    const ports = this.#exec.isOver ? [] : this.#exec.ports()
    return {
      name: this.name,
      ready: this.isReady,
      readyMs: this.#readiness?.readyMs ?? null,
      ports,
      restarts: this.#exec.setup.reservation.origin?.restarts ?? 0,
    }
  }

  /** Resolves when it is ready or over, or when the caller has waited long enough. */
  async settled(signal: AbortSignal): Promise<void> {
    const time = AbortSignal.any([signal, AbortSignal.timeout(this.#request.timeoutMs ?? BACKGROUND_DEFAULTS.readyMs)])
    while (!this.isReady && !this.#exec.isOver && !time.aborted) await this.#exec.changed(time)
  }

  watch(): void {
    if (this.isReady || this.#timer !== undefined) return
    const { pollMs, pollLaterMs, readyMs } = BACKGROUND_DEFAULTS
    const look = (): void => {
      if (this.#exec.isOver) return
      if (this.#isUp()) {
        this.#becomeReady()
        return
      }
      const nextMs = this.#waitedMs < readyMs ? pollMs : pollLaterMs
      this.#waitedMs += nextMs
      this.#timer = setTimeout(look, nextMs)
      this.#timer.unref()
    }
    this.#timer = setTimeout(look, pollMs)
    this.#timer.unref()
  }

  close(): void {
    clearTimeout(this.#timer)
  }

  // ---- details ----

  get #request() {
    return this.#exec.setup.reservation.request.background ?? {}
  }

  #isUp(): boolean {
    const { ready } = this.#request
    const { startedAtMs } = this.#exec
    if (startedAtMs === null) return false
    if (ready === undefined) return this.#exec.setup.clock.now() - startedAtMs >= BACKGROUND_DEFAULTS.settledMs
    return 'port' in ready
      ? this.#exec.ports().includes(ready.port)
      : this.#searches.some(({ stream, search }) => search.isFound(this.#exec.bytes(stream)))
  }

  #becomeReady(): void {
    const { startedAtMs, setup, folder } = this.#exec
    const ports = this.#exec.ports()
    this.#readiness = { readyMs: Math.max(0, Math.round(setup.clock.now() - (startedAtMs ?? 0))), ports }
    keepReadiness(folder, this.#readiness)
    this.#exec.logReady(ports)
  }
}
