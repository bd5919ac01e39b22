/** What the buttons of the demo's page do to its set-up. */
import type * as Chaos from '@breakfall/chaos'
import type { FaultProxy, Plan } from '@breakfall/chaos'
import type { ChaosView } from '@breakfall/wire'
import type { ChaosRequest } from '../../demo-setup/chaos-link.ts'
import { type DemoSetup, startDemoSetup } from '../../demo-setup/demo-setup.ts'

export type DemoControl = Pick<DemoSetup, 'folder' | 'stateDir' | 'env' | 'close'> & {
  /** Does everything but kill the daemon: that is its owner's. */
  readonly act: (request: ChaosRequest) => Promise<unknown>
}

const CHUNK_MS = 40 // fast enough to watch, slow enough to hit a button
const LIVENESS_MS = 4_000 // a stall of eight seconds is noticed after half of it
const INJECTIONS_MAX = 200

export async function startDemoControl(options: {
  isolation: 'bwrap' | 'process' | undefined
  plan: string
}): Promise<DemoControl> {
  const plans = plansOf(await import('@breakfall/chaos'))
  let plan = plans(options.plan)
  const { folder, stateDir, env, modelUrl, proxy, runner, moving, close } = await startDemoSetup({
    name: 'demo',
    plan: () => plan,
    isolation: options.isolation,
    chunkMs: CHUNK_MS,
    livenessMs: LIVENESS_MS,
  })
  const view = (): ChaosView => ({ plan: { ...plan }, waiting: proxy.waiting, injections: injectionsOf(proxy) })
  return {
    folder,
    stateDir,
    env: {
      ...env,
      BREAKFALL_MODEL_BASE_URL: modelUrl,
      BREAKFALL_MODEL_NAME: 'rehearsal/steps-50',
      BREAKFALL_MODEL_PROFILE: 'generic',
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
    close,
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
