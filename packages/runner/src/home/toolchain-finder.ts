/** The toolchains of this machine: found at the start, and again when a folder that they were found in changes. */
import { findToolchains, isWritable, signatureOf, type ToolchainInput, type Toolchains } from './toolchains.ts'
import { runtimesIn } from './runtimes.ts'

export type FoundToolchains = Toolchains & { readonly runtimes: readonly string[] }

const CHECK_MS = 1_000 // a check costs a few dozen stat calls; no one installs a toolchain and uses it within a second

export class ToolchainFinder {
  readonly home: string
  readonly #input: ToolchainInput
  readonly #now: () => number
  #found: FoundToolchains
  #signature: string
  #checkedAt: number
  /** Folders that a box may write, now and while this runner lives. */
  readonly #writable = new Set<string>()

  constructor(input: ToolchainInput, now: () => number) {
    this.home = input.home
    this.#input = input
    this.#now = now
    this.#found = find(input)
    this.#signature = signatureOf(input, this.#found)
    this.#checkedAt = now()
  }

  /** What a box may write from now on. */
  distrust(folders: readonly string[]): void {
    const before = this.#writable.size
    for (const folder of folders) this.#writable.add(folder)
    if (this.#writable.size > before) this.#checkedAt = Number.NEGATIVE_INFINITY
  }

  /** A box may change what is there. */
  isWritable(path: string): boolean {
    return isWritable(path, [...this.#writable])
  }

  get current(): FoundToolchains {
    const now = this.#now()
    if (now - this.#checkedAt < CHECK_MS) return this.#found
    this.#checkedAt = now
    const input = { ...this.#input, writable: [...this.#writable] }
    const signature = signatureOf(input, this.#found)
    if (signature === this.#signature) return this.#found
    this.#found = find(input)
    this.#signature = signatureOf(input, this.#found)
    return this.#found
  }
}

// ---- details ----

function find(input: ToolchainInput): FoundToolchains {
  const found = findToolchains(input)
  return { ...found, runtimes: runtimesIn(found, input.home) }
}
