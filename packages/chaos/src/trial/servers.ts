/** The model of one trial run, behind a fault proxy that breaks the chosen answers. One pair per run: runs share nothing. */
import { parseJson } from '../dialect.ts'
import { NO_FAULTS, type Plan } from '../plan.ts'
import { type FaultProxy, startFaultProxy } from '../proxy.ts'
import { type Api, apiFor } from '../rehearsal/apis.ts'
import { startRehearsalModel } from '../rehearsal/server.ts'
import { trialFault } from './faults.ts'
import { answerAt, OVER, positionOf } from './script.ts'
import { shellToolOf } from '../rehearsal/shell-tool.ts'
import type { TrialMode } from './verdict.ts'

export type TrialServers = {
  /** Without a path, and with `/v1`. */
  readonly origin: string
  readonly url: string
  /** What the agent did so far. */
  seen(): {
    readonly requests: number
    readonly dialect: Api['name'] | null
    readonly mode: TrialMode
    readonly isHit: boolean
  }
  close(): Promise<void>
}

export async function startTrialServers(options: {
  readonly plan?: Plan | undefined
  readonly mode?: TrialMode | undefined
  /** The file to which the agent's commands add a line each. */
  readonly ledger: string
}): Promise<TrialServers> {
  const { plan = NO_FAULTS, mode = 'tools', ledger } = options
  const takes = new Counts()
  const attempts = new Counts()
  let requests = 0
  let dialect: Api['name'] | null = null
  let hasShell = false
  const model = await startRehearsalModel({
    chunkDelayMs: CHUNK_MS,
    play: ({ conversation, tools }) => {
      const tool = shellToolOf(tools)
      const position = positionOf(conversation, tool !== undefined)
      if (position === null) return OVER
      return answerAt(position, takes.add(`${position.does}-${position.step}`), tool, ledger)
    },
  })
  const proxy: FaultProxy = await startFaultProxy({
    upstream: new URL(model.url).origin,
    choose: ({ path, body }) => {
      const asked = askedOf(path, body)
      if (asked === undefined) return undefined
      requests += 1
      if (asked.hasShell || dialect === null) ({ dialect } = asked)
      hasShell ||= asked.hasShell
      if (asked.step === null) return undefined
      return trialFault(plan, mode, asked.step, attempts.add(String(asked.step)))
    },
  }).catch(async (error: unknown) => {
    await model.close()
    throw error
  })
  const { origin } = new URL(proxy.url)
  return {
    origin,
    url: `${origin}/v1`,
    seen: () => ({
      requests,
      dialect,
      mode: hasShell ? 'tools' : 'text',
      isHit: proxy.injected.some((injection) => injection.outcome === 'injected'),
    }),
    close: async () => {
      await proxy.close()
      await model.close()
    },
  }
}

// ---- details ----

const CHUNK_MS = 5 // slow enough that an agent shows what it has before the break

class Counts {
  readonly #counts = new Map<string, number>()

  add(name: string): number {
    const count = (this.#counts.get(name) ?? 0) + 1
    this.#counts.set(name, count)
    return count
  }
}

type Asked = { readonly dialect: Api['name']; readonly hasShell: boolean; readonly step: number | null }

/** Undefined for anything but a request for an answer. */
function askedOf(path: string, body: Buffer): Asked | undefined {
  const api = apiFor(path.split('?')[0] ?? '')
  const json = parseJson(body.toString('utf8'))
  if (api === undefined || json === undefined) return undefined
  try {
    const hasShell = shellToolOf(api.tools(json) ?? []) !== undefined
    const position = positionOf(api.conversation(json), hasShell)
    const step = position === null || position.does === 'check' ? null : position.step
    return { dialect: api.name, hasShell, step }
  } catch {
    return undefined // the model answers it with an error
  }
}
