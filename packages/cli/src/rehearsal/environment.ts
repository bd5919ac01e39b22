/**
 * A rehearsal: the real runner, sandbox and tools on a small real task, with a scripted model and a few injected faults, to show how
 * they are survived. The default faults: the model's stream breaks, the runner moves to another port, and a later stream stalls.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { ProviderGiven, SessionEvent } from '@breakfall/wire'
import { startStage } from './stage.ts'

export type Rehearsal = {
  /** Where the turn works. */
  readonly folder: string
  readonly stateDir: string
  readonly prompt: string
  readonly modelName: string
  readonly provider: ProviderGiven
  readonly env: Readonly<Record<string, string>>
  onEvent(event: SessionEvent): void
  close(): Promise<void>
}

/** Long enough to see, short enough to wait for. */
const LIVENESS_MS = 1_200

export async function startRehearsal(options: {
  plan: string | undefined
  prompt: string | undefined
  isolation: 'bwrap' | 'process' | undefined
}): Promise<Rehearsal> {
  const { REHEARSAL_PROJECT, REHEARSAL_PROMPT } = await import('@breakfall/chaos/internal')
  const { folder, stateDir, env, modelUrl, moving, close } = await startStage({
    name: 'rehearsal',
    plan: (chaos) => (options.plan === undefined ? chaos.readPlan(DEFAULT_PLAN) : chaos.parsePlan(options.plan)),
    isolation: options.isolation,
    chunkMs: 8,
    livenessMs: LIVENESS_MS,
  })
  for (const [path, content] of Object.entries(REHEARSAL_PROJECT)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), content)
  }
  let isMoved = options.plan !== undefined // with a plan of your own, the runner stays
  return {
    folder,
    stateDir,
    prompt: options.prompt ?? REHEARSAL_PROMPT,
    modelName: 'rehearsal/fix',
    provider: { name: 'rehearsal', baseUrl: modelUrl, api: 'openai-chat', profile: 'generic' },
    env: { ...env, BREAKFALL_POLICY_BACKOFF_MS: '200' },
    onEvent: (event) => {
      if (isMoved || event.type !== 'tool-result') return
      isMoved = true
      void moving.move()
    },
    close,
  }
}

// ---- details ----

const DEFAULT_PLAN = {
  at: [
    { request: 2, attempt: 1, fault: { kind: 'reset', afterEvents: 4 } },
    { request: 4, attempt: 1, fault: { kind: 'stall', ms: 20_000, afterEvents: 3 } },
  ],
} as const
