/**
 * What a background exec has besides an ordinary one: it is ready at some point, and of its output only the newest part is
 * kept. `ready` is stored in its folder, so a restarted runner knows it.
 */
import { execFile } from 'node:child_process'
import { closeSync, openSync, readFileSync, readSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseObject } from '@breakfall/faults/internal'
import { BACKGROUND_READY_MS } from '@breakfall/wire/internal'
import type { Stream } from './event-log.ts'

export const BACKGROUND_DEFAULTS = {
  readyMs: BACKGROUND_READY_MS,
  settledMs: 500, // without a condition: it is up if it has not ended by then
  outputBytes: 16 * 1024 * 1024,
  slackBytes: 4 * 1024 * 1024, // kept beyond that, so old bytes are not given up one by one
  pollMs: 25,
  pollLaterMs: 500, // after the caller got its answer
} as const

export type Readiness = { readonly readyMs: number; readonly ports: readonly number[] }

const READY = 'ready.json'
const BASES = 'bases.json'

export function readReadiness(folder: string): Readiness | undefined {
  try {
    const { readyMs, ports } = parseObject(readFileSync(join(folder, READY), 'utf8'))
    return typeof readyMs === 'number' && Array.isArray(ports) ? { readyMs, ports: ports.map(Number) } : undefined
  } catch {
    return undefined // not yet
  }
}

export function keepReadiness(folder: string, readiness: Readiness): void {
  try {
    writeFileSync(join(folder, READY), JSON.stringify(readiness), { mode: 0o600 })
  } catch {
    // The disk is full: a restarted runner looks again.
  }
}

/** The first byte of each stream that is still kept. */
export type Bases = Readonly<Record<Stream, number>>

export function readBases(folder: string): Bases {
  try {
    const { stdout, stderr } = parseObject(readFileSync(join(folder, BASES), 'utf8'))
    return { stdout: Number(stdout), stderr: Number(stderr) }
  } catch {
    return { stdout: 0, stderr: 0 } // everything is kept
  }
}

/** Gives up the oldest bytes of a spool: its offsets stay, its blocks go back to the disk. */
export class OutputWindow {
  readonly #folder: string
  #bases: Bases
  #isPunching = false

  constructor(folder: string) {
    this.#folder = folder
    this.#bases = readBases(folder)
  }

  grown(stream: Stream, bytes: number): void {
    const { outputBytes, slackBytes } = BACKGROUND_DEFAULTS
    if (this.#isPunching || bytes - this.#bases[stream] < outputBytes + slackBytes) return
    const base = bytes - outputBytes
    this.#bases = { ...this.#bases, [stream]: base }
    try {
      writeFileSync(join(this.#folder, BASES), JSON.stringify(this.#bases), { mode: 0o600 }) // readers see a gap before the bytes go
    } catch {
      return // the disk is full, and nothing is given up without a note
    }
    this.#isPunching = true
    const args = ['--punch-hole', '--offset', '0', '--length', String(base), join(this.#folder, stream)]
    execFile('fallocate', args, { env: { PATH: '/usr/bin:/bin:/usr/sbin:/sbin' } }, () => {
      this.#isPunching = false // a file system that cannot do this keeps the bytes
    })
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
