/** Of a background exec's output only the newest part is kept: the first byte that is left is in a file of its folder. */
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseObject } from '@breakfall/faults/internal'
import type { Stream } from './event-log.ts'

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
    if (this.#isPunching || bytes - this.#bases[stream] < OUTPUT_BYTES + SLACK_BYTES) return
    const base = bytes - OUTPUT_BYTES
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

// ---- details ----

const BASES = 'bases.json'
const OUTPUT_BYTES = 16 * 1024 * 1024
const SLACK_BYTES = 4 * 1024 * 1024 // kept beyond that, so old bytes are not given up one by one
