/**
 * Watches a background exec until it is ready: it listens on a port, has printed a text, or simply has not ended. That is stored in
 * its folder, so a restarted runner knows it.
 */
import { closeSync, openSync, readFileSync, readSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseObject } from '@breakfall/faults/internal'
import { BACKGROUND_READY_MS } from '@breakfall/wire/internal'
import type { Exec as ExecRecord } from '@breakfall/wire'
import { type Stream, STREAMS } from './event-log.ts'
import type { ExecSetup } from './exec-setup.ts'

const BACKGROUND_DEFAULTS = {
  readyMs: BACKGROUND_READY_MS,
  settledMs: 500, // without a condition: it is up if it has not ended by then
  pollMs: 25,
  pollLaterMs: 500, // after the caller got its answer
} as const

/** What it needs of its exec. */
type BackgroundExec = {
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
    const check = (): void => {
      if (this.#exec.isOver) return
      if (this.#isUp()) {
        this.#becomeReady()
        return
      }
      const nextMs = this.#waitedMs < readyMs ? pollMs : pollLaterMs
      this.#waitedMs += nextMs
      this.#timer = setTimeout(check, nextMs)
      this.#timer.unref()
    }
    this.#timer = setTimeout(check, pollMs)
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

/** Finds a text in a spool that grows, without reading anything twice. */
export class TextSearch {
  readonly #file: string
  readonly #wanted: Buffer
  #at = 0

  constructor(file: string, wanted: string) {
    this.#file = file
    this.#wanted = Buffer.from(wanted)
  }

  /** `bytes`: how much of the file counts, because readers of the log have it. */
  isFound(bytes: number): boolean {
    if (this.#at >= bytes) return false
    let fd: number
    try {
      fd = openSync(this.#file, 'r')
    } catch {
      return false // nothing was written yet
    }
    try {
      const block = Buffer.allocUnsafe(256 * 1024)
      for (;;) {
        const length = readSync(fd, block, 0, Math.min(block.length, bytes - this.#at), this.#at)
        if (block.subarray(0, length).includes(this.#wanted)) return true
        if (length < block.length) return false
        this.#at += length - this.#wanted.length + 1
      }
    } finally {
      closeSync(fd)
    }
  }
}

const READY = 'ready.json'

type Readiness = { readonly readyMs: number; readonly ports: readonly number[] }

export function readReadiness(folder: string): Readiness | undefined {
  try {
    const { readyMs, ports } = parseObject(readFileSync(join(folder, READY), 'utf8'))
    return typeof readyMs === 'number' && Array.isArray(ports) ? { readyMs, ports: ports.map(Number) } : undefined
  } catch {
    return undefined // not yet
  }
}

function keepReadiness(folder: string, readiness: Readiness): void {
  try {
    writeFileSync(join(folder, READY), JSON.stringify(readiness), { mode: 0o600 })
  } catch {
    // The disk is full: a restarted runner looks again.
  }
}
