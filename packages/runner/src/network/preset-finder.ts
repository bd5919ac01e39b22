/** Asks the tools of this machine what presets stand for. Answers are kept for a while: asking npm takes half a second. */
import { execFile } from 'node:child_process'
import { globSync, readdirSync, readFileSync } from 'node:fs'
import { type Preset, presetNames, type PresetSource } from './presets.ts'

const RUN_MS = 20_000
const GET_MS = 5_000
const TEXT_BYTES_MAX = 16 * 1024 * 1024
const KEPT_MS = 600_000

export class PresetFinder {
  readonly #source: PresetSource
  readonly #nowMs: () => number
  readonly #known = new Map<Preset, { readonly names: Promise<readonly string[]>; readonly atMs: number }>()

  constructor(environment: Readonly<Record<string, string | undefined>>, home: string, nowMs: () => number) {
    this.#source = machine(environment, home)
    this.#nowMs = nowMs
  }

  names(preset: Preset): Promise<readonly string[]> {
    const known = this.#known.get(preset)
    if (known !== undefined && this.#nowMs() - known.atMs < KEPT_MS) return known.names
    const names = presetNames(preset, this.#source).then((found) => {
      if (found.length === 0) this.#known.delete(preset) // the tool may be installed by the next time
      return found
    })
    this.#known.set(preset, { names, atMs: this.#nowMs() })
    return names
  }
}

// ---- details ----

function machine(environment: Readonly<Record<string, string | undefined>>, home: string): PresetSource {
  return {
    home,
    run: (program, args) =>
      new Promise((resolve) => {
        // In the root folder: the settings of a project must not decide what a box can reach.
        const options = { env: { ...environment }, cwd: '/', timeout: RUN_MS, maxBuffer: TEXT_BYTES_MAX }
        execFile(program, [...args], options, (error, stdout) => resolve(error === null ? stdout : ''))
      }),
    get: async (url, accept) => {
      try {
        const answer = await fetch(url, { headers: { accept }, signal: AbortSignal.timeout(GET_MS) })
        return answer.ok ? (await answer.text()).slice(0, TEXT_BYTES_MAX) : ''
      } catch {
        return '' // offline, or it wants credentials: the index itself is still known
      }
    },
    files: (pattern) => globSync(pattern).map((file) => orEmpty(() => readFileSync(file, 'utf8'))),
    folders: (folder) => {
      try {
        return readdirSync(folder)
      } catch {
        return [] // the tool was never used here
      }
    },
  }
}

function orEmpty(read: () => string): string {
  try {
    return read()
  } catch {
    return '' // not readable for this user
  }
}
