/**
 * Unfinished uploads. Each is a temporary file next to its target until it is complete, with a note in the box's folder, so
 * a restarted runner removes what a killed one left in the user's folder.
 */
import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync, rmSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeFolder } from '../lib/disk.ts'
import { type OpenFolder, openFolder } from './walk.ts'

export type Upload = {
  readonly name: string
  /** Call when the file is renamed or removed. */ readonly done: () => void
}

export class Uploads {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  /** `parts` lead to the folder of the temporary file. Throws if the note cannot be written. */
  begin(parts: readonly string[]): Upload {
    const name = `.breakfall-${randomUUID()}`
    const note = join(this.#folder, name)
    makeFolder(this.#folder)
    writeFileSync(note, JSON.stringify(parts), { mode: 0o600 })
    return { name, done: () => rmSync(note, { force: true }) }
  }

  /** Removes unfinished uploads of an earlier process. */
  sweep(open: () => OpenFolder): void {
    for (const name of this.#noted()) {
      try {
        using folder = openFolder(open(), this.#partsIn(name))
        unlinkSync(folder.at(name))
      } catch {
        // It was finished after all, or its folder is gone or replaced: then there is nothing of ours to remove.
      }
      rmSync(join(this.#folder, name), { force: true })
    }
  }

  /** The folder that the note names; throws if the note is damaged. */
  #partsIn(name: string): readonly string[] {
    const parts: unknown = JSON.parse(readFileSync(join(this.#folder, name), 'utf8'))
    if (!Array.isArray(parts)) throw new Error('the note is damaged')
    return parts.map(String)
  }

  #noted(): readonly string[] {
    try {
      return readdirSync(this.#folder).filter((name) => /^\.breakfall-[0-9a-f-]{36}$/.test(name))
    } catch {
      return [] // no file was ever uploaded to this box
    }
  }
}
