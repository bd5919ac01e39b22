/**
 * Remembers which era of the protocol each server speaks, so that the next start need not probe for it.
 *
 * I1  A verdict belongs to one command or URL. A changed one is probed again.
 * I2  The verdict that a server speaks the protocol of 2025 expires: an updated server would still answer that handshake.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { isObject } from '@breakfall/faults/internal'
import { replaceFile } from '@breakfall/supervisor/platform'
import type { PriorDiscovery } from '@modelcontextprotocol/client'
import { systemNow } from './clock.ts'
import { MCP_LIMITS, type McpServerConfig } from './config.ts'

type Verdict = { readonly prior: PriorDiscovery; readonly at: number }

const DAY_MS = 86_400_000

export class Eras {
  readonly #file: string | undefined
  readonly #now: () => number
  #verdicts: Map<string, Verdict> | undefined

  /** Without a file, verdicts last as long as the process. */
  constructor(file?: string, now: () => number = systemNow) {
    this.#file = file
    this.#now = now
  }

  prior(config: McpServerConfig): PriorDiscovery | undefined {
    const verdict = this.#all().get(keyOf(config))
    if (verdict === undefined) return undefined
    const isOld = this.#now() - verdict.at > MCP_LIMITS.eraDays * DAY_MS // I2
    return isOld ? undefined : verdict.prior
  }

  remember(config: McpServerConfig, prior: PriorDiscovery): void {
    const key = keyOf(config)
    const known = this.#all().get(key)
    if (known !== undefined && JSON.stringify(known.prior) === JSON.stringify(prior) && this.prior(config)) return
    this.#all().set(key, { prior, at: this.#now() })
    this.#save()
  }

  forget(config: McpServerConfig): void {
    if (this.#all().delete(keyOf(config))) this.#save()
  }

  #all(): Map<string, Verdict> {
    this.#verdicts ??= new Map(this.#file === undefined ? [] : read(this.#file))
    return this.#verdicts
  }

  #save(): void {
    if (this.#file === undefined) return
    try {
      mkdirSync(dirname(this.#file), { recursive: true, mode: 0o700 })
      replaceFile(this.#file, JSON.stringify(Object.fromEntries(this.#all())), { isShared: true })
    } catch {
      // Without the file the next start probes again, which works as well.
    }
  }
}

// ---- details ----

const keyOf = ({ command, args, url }: McpServerConfig): string =>
  createHash('sha256')
    .update(JSON.stringify([command, args ?? [], url]))
    .digest('hex')
    .slice(0, 32) // I1

function read(file: string): [string, Verdict][] {
  try {
    const parsed: unknown = JSON.parse(readFileSync(file, 'utf8'))
    return isObject(parsed)
      ? Object.entries(parsed).filter((entry): entry is [string, Verdict] => isVerdict(entry[1]))
      : []
  } catch {
    return [] // there is none yet, or it is damaged: every server is probed
  }
}

function isVerdict(value: unknown): value is Verdict {
  if (typeof value !== 'object' || value === null || !('prior' in value) || !('at' in value)) return false
  const { prior, at } = value
  if (typeof at !== 'number' || typeof prior !== 'object' || prior === null || !('kind' in prior)) return false
  return prior.kind === 'legacy' || (prior.kind === 'modern' && 'discover' in prior)
}
