/**
 * The ids that a box has used, synced to disk before anything starts: after a power cut that lost an exec's folder, its id
 * is still known and never started again.
 */
import { closeSync, fdatasync, ftruncateSync, openSync, readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { writeFully } from '../state/disk.ts'
import { errorCode } from '../state/json.ts'

export type ReservedId = { readonly execId: string; readonly machineBootId: string; readonly hash: string }

const sync = promisify(fdatasync)

export class Reservations {
  readonly #file: string
  #fd: number | undefined
  #size = 0

  constructor(file: string) {
    this.#file = file
  }

  read(): readonly ReservedId[] {
    let text: string
    try {
      text = readFileSync(this.#file, 'utf8')
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return []
      throw error
    }
    const lines = text.split('\n')
    lines.pop() // an incomplete last line was never acknowledged
    return lines.flatMap((line) => {
      const [execId, machineBootId, hash] = line.split(' ')
      return execId === undefined || machineBootId === undefined || hash === undefined
        ? []
        : [{ execId, machineBootId, hash }]
    })
  }

  async add(entry: ReservedId): Promise<void> {
    if (this.#fd === undefined) {
      this.#fd = openSync(this.#file, 'a', 0o600)
      this.#size = readFileSync(this.#file).lastIndexOf(10) + 1
      ftruncateSync(this.#fd, this.#size)
    }
    const line = Buffer.from(`${entry.execId} ${entry.machineBootId} ${entry.hash}\n`)
    try {
      writeFully(this.#fd, line)
    } catch (error) {
      ftruncateSync(this.#fd, this.#size) // half a line would corrupt the next one
      throw error
    }
    this.#size += line.length
    await sync(this.#fd)
  }

  close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd)
    this.#fd = undefined
  }
}
