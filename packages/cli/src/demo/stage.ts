/** Everything that surrounds the demo's daemon: the scripted model, the proxy that breaks its answers, a runner that can move. */
import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type * as Chaos from '@breakfall/chaos'
import type { FaultProxy, Plan } from '@breakfall/chaos'
import type { ChaosView } from '@breakfall/wire'
import { parseTokens } from '@breakfall/wire/node'
import { startMovingProxy } from '../rehearsal/moving-proxy.ts'
import { makeScratch } from '../rehearsal/scratch.ts'
import type { ChaosRequest } from './chaos-link.ts'
import { DemoRunner } from './demo-runner.ts'

export type Stage = {
  readonly stateDir: string
  readonly folder: string
  /** Tells the daemon where everything is. */
  readonly env: Readonly<Record<string, string>>
  /** Does everything but kill the daemon: that is its owner's. */
  readonly act: (request: ChaosRequest) => Promise<unknown>
  close(): Promise<void>
}

const CHUNK_MS = 40 // fast enough to watch, slow enough to hit a button
const LIVENESS_MS = 4_000 // a stall of eight seconds is noticed after half of it
const INJECTIONS_MAX = 200

export async function startStage(options: {
  isolation: 'bwrap' | 'process' | undefined
  plan: string
}): Promise<Stage> {
  const chaos = await import('@breakfall/chaos')
  await using started = new AsyncDisposableStack()
  const scratch = makeScratch('demo')
  started.defer(() => rmSync(scratch, { recursive: true, force: true, maxRetries: 5 }))
  const [stateDir, folder] = [join(scratch, 'state'), join(scratch, 'work')]
  mkdirSync(folder)
  const runner = await DemoRunner.start({
    stateDir: join(scratch, 'runner'),
    allowWorkspace: [folder],
    isolation: options.isolation,
  })
  const [grant] = parseTokens(readFileSync(runner.tokenFile, 'utf8'))
  started.defer(() => runner.stop(grant?.token ?? ''))
  const model = await chaos.startRehearsalModel({ chunkDelayMs: CHUNK_MS })
  started.defer(() => model.close())
  const plans = plansOf(chaos)
  const first = plans(options.plan)
  const proxy = await chaos.startFaultProxy({ upstream: new URL(model.url).origin, plan: first })
  started.defer(() => proxy.close())
  const moving = await startMovingProxy(new URL(runner.url).port, chaos.startTcpProxy)
  started.defer(() => moving.close())
  const parts = started.move()
  let plan = first
  const view = (): ChaosView => ({ plan: { ...plan }, waiting: proxy.waiting, injections: injectionsOf(proxy) })
  return {
    stateDir,
    folder,
    env: {
      BREAKFALL_MODEL_BASE_URL: `${proxy.url.replace(/\/$/, '')}/v1`,
      BREAKFALL_MODEL_NAME: 'rehearsal/steps-50',
      BREAKFALL_MODEL_PROFILE: 'generic',
      BREAKFALL_RUNNER_URL: moving.url,
      BREAKFALL_RUNNER_TOKEN_FILE: runner.tokenFile,
      BREAKFALL_RUNNER_RESOLVE_URL: moving.resolveUrl,
      BREAKFALL_POLICY_LIVENESS_MS: String(LIVENESS_MS),
    },
    act: async (request) => {
      switch (request.method) {
        case 'read':
          return view()
        case 'setPlan':
          plan = plans(request.plan)
          proxy.use(plan)
          return view()
        case 'injectNext':
          proxy.once(request.fault)
          return view()
        case 'kill':
          if (request.what === 'runner') runner.kill()
          if (request.what === 'move-runner') await moving.move()
          return {}
      }
    },
    close: () => parts.disposeAsync(),
  }
}

// ---- details ----

/** Only what the model answers is broken, not its health. */
const plansOf =
  (chaos: typeof Chaos) =>
  (given: unknown): Plan => ({
    ...(typeof given === 'string' ? chaos.parsePlan(given) : chaos.readPlan(given)),
    method: 'POST',
  })

const injectionsOf = ({ injected }: FaultProxy): ChaosView['injections'] =>
  injected.slice(-INJECTIONS_MAX).map(({ at, request, attempt, fault, outcome, bytes, events }) => ({
    at,
    request,
    attempt,
    fault,
    outcome,
    bytes,
    events,
  }))
