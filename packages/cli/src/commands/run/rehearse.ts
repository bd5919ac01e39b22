/**
 * A rehearsal, on request or by `npm start` without a prompt: the real runner, sandbox and tools on a small real task, with a scripted
 * model and a few injected faults, to show how they are survived. By default the model's stream breaks, the runner moves to another
 * port, and a later stream stalls.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DaemonClient, RECONNECT_POLICY } from '@breakfall/client'
import { EXIT_CODES, Fault } from '@breakfall/faults'
import type { ProviderGiven, SessionEvent } from '@breakfall/wire'
import type { ResolvedConfig } from '../../config/resolve.ts'
import { ChildDaemon } from '../../daemon/child.ts'
import { chosenIsolation, startDemoSetup, withoutBreakfall } from '../../demo-setup/demo-setup.ts'
import { describeModel } from '../../model/choose.ts'
import { cmd, shellQuoted } from '../../process/command-name.ts'
import { followTurn } from './follow-turn.ts'
import type { RunContext } from './options.ts'
import { isPiped } from './prompt.ts'
import { onRestart } from './run-daemon.ts'

export async function rehearse(context: RunContext, prompt: string | undefined): Promise<number> {
  const { out, interrupt, config } = context
  const { faults, parkWaitMs } = context.options
  const isolation = chosenIsolation(context.options.isolation, 'this rehearsal', out)
  const rehearsal = await startRehearsal({ plan: faults === 'none' ? 'rate=0' : faults, prompt, isolation })
  const injected = faults === undefined ? 'injecting a broken stream, a stall and a moved runner' : `faults: ${faults}`
  out.say(`model: ${rehearsal.modelName}, scripted; ${injected}`)
  const { folder, stateDir } = rehearsal
  const env = { ...withoutBreakfall(config.childEnv), ...rehearsal.env }
  const daemon = new ChildDaemon({ args: ['--state-dir', stateDir], env, cwd: folder, onRestart: onRestart(out) })
  try {
    interrupt.throwIfInterrupted()
    const address = await interrupt.unlessInterrupted(daemon.address())
    return await followTurn(
      {
        client: new DaemonClient(address, { locate: () => daemon.address(), policy: RECONNECT_POLICY }),
        prompt: rehearsal.prompt,
        create: {
          title: 'rehearsal',
          model: rehearsal.modelName,
          provider: rehearsal.provider,
          box: { workspace: folder, isolation: { level: isolation }, checkpoints: 'auto' },
          policy: { approve: 'never' }, // its commands are scripted, and its folder is temporary
        },
        session: undefined,
        parkWaitMs,
        interrupt,
        isLasting: () => false,
        onEvent: (event) => rehearsal.onEvent(event),
        saysInstructions: false, // a scripted model reads none
        resultFields: { rehearsal: true },
      },
      out,
    )
  } finally {
    await daemon.release(false)
    await rehearsal.close()
  }
}

/** How to set a model, with a command that works from the current folder. Pure. */
export function howToSetModel(checkout: string | undefined): string {
  const command = checkout === undefined ? 'breakfall' : `npm --prefix ${shellQuoted(checkout)} start --`
  return `Set OPENAI_BASE_URL, OPENAI_API_KEY or ANTHROPIC_API_KEY, pass --base-url URL, start Ollama or llama-server, or see: ${command} config example`
}

/** `run` without a prompt: an error, but a rehearsal if `npm start` started it. */
export async function runWithoutPrompt(context: RunContext): Promise<number> {
  const { out, config } = context
  const model = config.model.kind === 'unset' ? undefined : describeModel(config.model)
  // `npm start` is the demo on every machine, even if a model is set.
  if (config.checkout === undefined) throw promptMissing(model)
  out.say('no prompt given, so this is a rehearsal: a scripted model on a sample task')
  if (isPiped()) out.say(`standard input was not read; to read the prompt from it: ${cmd('run')} -`)
  const code = await rehearse(context, undefined)
  if (code === EXIT_CODES.finished) for (const line of afterRehearsal(config, model)) out.say(line)
  return code
}

/** What to do next, as a command that works from the current folder. Pure. */
export function afterRehearsal(
  { checkout }: Pick<ResolvedConfig, 'checkout'>,
  model: string | undefined,
): readonly string[] {
  const command = checkout === undefined ? cmd('run') : `npm --prefix ${shellQuoted(checkout)} start --`
  return [
    `\nThat ran in a scratch folder, which is now removed. To run your own task in your folder with ${model ?? 'your model'}:`,
    `  ${command} "make the failing test pass"`,
    ...(model === undefined ? [howToSetModel(checkout)] : []),
  ]
}

// ---- details, in the order they are used above ----

type Rehearsal = {
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

async function startRehearsal(options: {
  plan: string | undefined
  prompt: string | undefined
  isolation: 'bwrap' | 'process' | undefined
}): Promise<Rehearsal> {
  const { REHEARSAL_PROJECT, REHEARSAL_PROMPT } = await import('@breakfall/chaos/internal')
  const { folder, stateDir, env, modelUrl, moving, close } = await startDemoSetup({
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
  let isMoved = options.plan !== undefined // with the user's plan, the runner stays
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

/** Long enough to see, short enough to wait for. */
const LIVENESS_MS = 1_200

const DEFAULT_PLAN = {
  at: [
    { request: 2, attempt: 1, fault: { kind: 'reset', afterEvents: 4 } },
    { request: 4, attempt: 1, fault: { kind: 'stall', ms: 20_000, afterEvents: 3 } },
  ],
} as const

const promptMissing = (model: string | undefined): Fault =>
  new Fault('invalid_request', {
    error: `A prompt is missing${model === undefined ? '' : ` for ${model}`}: ${cmd('run')} "PROMPT", or ${cmd('run')} - to read it from a file or a pipe. Without a model: ${cmd('run')} --rehearsal`,
  })
