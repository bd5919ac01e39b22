/**
 * The surroundings of a rehearsal: the real runner, sandbox and tools on a small real task, with a scripted model in place of a
 * paid one and a few injected faults, to show how they are survived. Everything lives in one scratch folder.
 *
 * The default faults: the model's stream breaks, the runner moves to another port, and a later stream stalls.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { ProviderGiven, SessionEvent } from '@breakfall/wire'
import { startMovingProxy } from './moving-proxy.ts'
import { startRunnerProcess } from './runner-process.ts'
import { makeScratch } from './scratch.ts'

export type Rehearsal = {
  /** Where the turn works. */
  readonly folder: string
  readonly stateDir: string
  readonly prompt: string
  readonly modelName: string
  readonly provider: ProviderGiven
  /** Tells the daemon where the runner is. */
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
  const chaos = await import('@breakfall/chaos')
  const { REHEARSAL_PROJECT, REHEARSAL_PROMPT } = await import('@breakfall/chaos/internal')
  const plan = options.plan === undefined ? chaos.readPlan(DEFAULT_PLAN) : chaos.parsePlan(options.plan)
  await using started = new AsyncDisposableStack() // cleans up if a later part fails to start
  const scratch = makeScratch('rehearsal')
  started.defer(() => rmSync(scratch, { recursive: true, force: true }))
  const folder = join(scratch, 'project')
  const stateDir = join(scratch, 'state')
  for (const [path, content] of Object.entries(REHEARSAL_PROJECT)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), content)
  }
  const runner = await startRunnerProcess({
    stateDir: join(stateDir, 'runner'),
    allowWorkspace: [folder],
    isolation: options.isolation,
  })
  started.defer(() => runner.stop())
  const model = await chaos.startRehearsalModel({ chunkDelayMs: 8 })
  started.defer(() => model.close())
  const proxy = await chaos.startFaultProxy({ upstream: new URL(model.url).origin, plan })
  started.defer(() => proxy.close())
  const moving = await startMovingProxy(new URL(runner.url).port, chaos.startTcpProxy)
  started.defer(() => moving.close())
  const parts = started.move()
  let isMoved = options.plan !== undefined // with a plan of your own, the runner stays
  return {
    folder,
    stateDir,
    prompt: options.prompt ?? REHEARSAL_PROMPT,
    modelName: 'rehearsal/fix',
    provider: {
      name: 'rehearsal',
      baseUrl: `${proxy.url.replace(/\/$/, '')}/v1`,
      api: 'openai-chat',
      profile: 'generic',
    },
    env: {
      BREAKFALL_RUNNER_URL: moving.url,
      BREAKFALL_RUNNER_TOKEN_FILE: runner.tokenFile,
      BREAKFALL_RUNNER_RESOLVE_URL: moving.resolveUrl,
      BREAKFALL_POLICY_LIVENESS_MS: String(LIVENESS_MS),
      BREAKFALL_POLICY_BACKOFF_MS: '200',
    },
    onEvent: (event) => {
      if (isMoved || event.type !== 'tool-result') return
      isMoved = true
      void moving.move()
    },
    close: () => parts.disposeAsync(),
  }
}

// ---- details ----

const DEFAULT_PLAN = {
  at: [
    { request: 2, attempt: 1, fault: { kind: 'reset', afterEvents: 4 } },
    { request: 4, attempt: 1, fault: { kind: 'stall', ms: 20_000, afterEvents: 3 } },
  ],
} as const
