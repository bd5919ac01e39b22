/** The wiring of `breakfall run`: which model, which daemon, which session. The turn itself is followed in `run.ts`. */
import { isUtf8 } from 'node:buffer'
import { spawnSync } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { Fault, isFault, type Policy } from '@breakfall/faults'
import type { Session, SessionCreate } from '@breakfall/wire'
import { type DaemonAddress, DaemonClient } from '../daemon-client.ts'
import { firstModel } from '../first-model.ts'
import { Interrupt } from '../interrupt.ts'
import { findDaemon } from '../locate-daemon.ts'
import { chooseModel, listModels, type ModelChoice } from '../model-choice.ts'
import { OwnDaemon } from '../own-daemon.ts'
import type { Context } from '../program.ts'
import { startRehearsal } from '../rehearsal.ts'
import { isWritable, refuseWide } from '../work-folder.ts'
import { grantWorkspace } from '../workspaces.ts'
import { run } from './run.ts'

type RunOptions = {
  readonly continue?: boolean
  readonly session?: string
  readonly network?: 'none' | 'host'
  readonly isolation?: 'bwrap' | 'process'
  readonly rehearsal?: boolean
  readonly faults?: string
  readonly parkWaitMs: number
}

export async function runCommand(given: Context, words: readonly string[]): Promise<number> {
  given.out.outlivesItsReader()
  using interrupt = new Interrupt(given.out)
  return await chosenRun({ ...given, interrupt }, words)
}

// ---- details, in the order they are used above ----

type RunContext = Context & { readonly interrupt: Interrupt }

async function chosenRun(context: RunContext, words: readonly string[]): Promise<number> {
  const options = context.options as unknown as RunOptions
  const prompt = await promptOf(words)
  const goesOn = options.continue === true || options.session !== undefined
  refuseContradictions(context, options, prompt, goesOn)
  if (options.rehearsal === true) return rehearse(context, options, prompt)
  if (prompt === undefined && !goesOn) {
    context.out.say('no prompt was given, so this is a rehearsal: a scripted model on a task of its own')
    return rehearse(context, options, undefined)
  }
  if (!context.env['BREAKFALL_URL'] && options.session === undefined) refuseWide(process.cwd(), context.stateDir)
  if (!isWritable(process.cwd()))
    context.out.say(
      context.out.styleErr(
        'yellow',
        'warning: this folder is read-only for you: the turn can look, but change nothing',
      ),
    )
  const daemon = await findDaemon(context.stateDir, context.env)
  if (daemon !== undefined) return driveTheirs(context, options, daemon, prompt)
  const choice = await chosen(context, goesOn)
  const serves = context.loaded.config.model?.serve !== undefined
  if (choice === undefined && !serves && !goesOn) return rehearseInstead(context, options)
  if (choice !== undefined && !goesOn) context.out.say(`model: ${choice.name} at ${choice.baseUrl} (${choice.because})`)
  const env = {
    ...context.env,
    ...(choice === undefined ? {} : modelVariables(choice)),
  }
  for (let looks = 1; ; looks++) {
    try {
      return await withOwnDaemon(
        context,
        { args: ownArguments(context, options, process.cwd()), env, cwd: process.cwd() },
        (own, client) => {
          grantWorkspace(context.stateDir, process.cwd()) // for the daemon that takes this session up if it parks
          return drive(context, options, client, prompt, () => own.address())
        },
      )
    } catch (error) {
      // Another run was faster: its daemon has the state folder, and answers soon.
      if (!isFault(error) || error.category !== 'lease_lost' || looks >= LOOKS_MAX) throw error
      const theirs = await findDaemon(context.stateDir, context.env)
      if (theirs !== undefined) return driveTheirs(context, options, theirs, prompt)
      await sleep(LOOK_EVERY_MS)
      context.interrupt.throwIfAsked()
    }
  }
}

const LOOKS_MAX = 20
const LOOK_EVERY_MS = 250

async function driveTheirs(
  context: RunContext,
  options: RunOptions,
  daemon: DaemonClient,
  prompt: string | undefined,
): Promise<number> {
  const server = (['baseUrl', 'api', 'profile'] as const).find((key) => context.options[key] !== undefined)
  if (server !== undefined)
    throw new Fault('invalid_request', {
      error: `the daemon at ${daemon.url} has a model server of its own, which ${MODEL_FLAGS[server]} cannot change; leave it out, or use another --state-dir`,
    })
  context.out.say(`using the daemon at ${daemon.url}`)
  if (!context.env['BREAKFALL_URL']) grantWorkspace(context.stateDir, process.cwd())
  return drive(context, options, daemon, prompt, () => daemonAgain(context, daemon))
}

/** The words, or what is piped in where `-` stands for them. */
async function promptOf(words: readonly string[]): Promise<string | undefined> {
  if (words.length === 0) return undefined
  if (words.length > 1 || words[0] !== '-') return words.join(' ')
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > PROMPT_BYTES_MAX)
      throw new Fault('payload_too_large', {
        error: 'the prompt is longer than 4 MiB; put it into a file and name that',
      })
  }
  const whole = Buffer.concat(chunks)
  if (!isUtf8(whole)) throw new Fault('invalid_request', { error: 'the prompt is not text: it must be UTF-8' })
  return whole.toString('utf8')
}

const PROMPT_BYTES_MAX = 4 * 1024 * 1024 // beyond what the daemon takes, which says its own limit

/** Where nobody named the model and a first look found no list, the server is asked until it is known why. */
async function chosen(context: RunContext, goesOn: boolean): Promise<ModelChoice | undefined> {
  const choice = await chooseModel(context.loaded, context.env, listModels)
  if (choice === undefined || !choice.isGuessed || goesOn) return choice
  const name = await firstModel(choice)
  if (name !== undefined) return { ...choice, name, isGuessed: false }
  throw new Fault('invalid_request', {
    error: `the server at ${choice.baseUrl} does not list its models, so name one: --model NAME, or [model] name in your config.toml`,
  })
}

const MODEL_FLAGS = { model: '--model', baseUrl: '--base-url', api: '--api', profile: '--profile' } as const

/** Whoever names a model must not get a rehearsal, and whoever names faults must get one. */
function refuseContradictions(
  context: RunContext,
  options: RunOptions,
  prompt: string | undefined,
  goesOn: boolean,
): void {
  const named = Object.entries(MODEL_FLAGS).find(([key]) => context.options[key] !== undefined)?.[1]
  const wrong = (error: string): never => {
    throw new Fault('invalid_request', { error })
  }
  if (prompt?.trim() === '') wrong('the prompt is empty; say what is to be done: breakfall run "PROMPT"')
  if (options.rehearsal === true && named !== undefined)
    wrong(`${named} and --rehearsal do not go together: a rehearsal has a scripted model of its own`)
  if (options.rehearsal === true && goesOn)
    wrong('a rehearsal is a session of its own: leave --continue and --session out')
  if (prompt === undefined && !goesOn && options.rehearsal !== true && named !== undefined)
    wrong(`${named} needs a prompt: breakfall run ${named} … "PROMPT"`)
  if (options.faults !== undefined && options.rehearsal !== true && (prompt !== undefined || goesOn))
    wrong('--faults is for rehearsals: add --rehearsal. Before a model of yours put "breakfall chaos"')
}

/** Nothing was named and nothing was found: it is said, before and after, that the prompt is not done. */
async function rehearseInstead(context: RunContext, options: RunOptions): Promise<number> {
  const { out, loaded } = context
  const [named] = [...loaded.origins].filter(([key]) => key.startsWith('model.'))
  if (named !== undefined)
    throw new Fault('invalid_request', {
      error: `${named[0]} is set (${named[1]}), but no model server: none is configured and none answers on this machine. ${HOW_TO_SET}`,
    })
  const warning = 'warning: NO MODEL DID YOUR PROMPT. None is configured and none answers on this machine'
  out.say(out.styleErr('yellow', `${warning}, so this is a rehearsal:`))
  out.say(`a scripted model on a task of its own, in a scratch folder. ${HOW_TO_SET}\n`)
  const code = await rehearse(context, options, undefined, { promptSent: false })
  out.say(out.styleErr('yellow', `\n${warning}.`))
  out.say(HOW_TO_SET)
  return code
}

const HOW_TO_SET =
  'Set OPENAI_BASE_URL, OPENAI_API_KEY or ANTHROPIC_API_KEY, start Ollama or llama-server, or see: breakfall config example'

async function rehearse(
  context: RunContext,
  options: RunOptions,
  prompt: string | undefined,
  about: Readonly<Record<string, unknown>> = {},
): Promise<number> {
  const isolation = options.isolation ?? (hasBwrap() ? 'bwrap' : 'process')
  if (isolation === 'process')
    context.out.say(
      'bubblewrap does not work here, so this rehearsal runs its commands without a sandbox (level "process").',
    )
  const rehearsal = await startRehearsal({
    plan: options.faults === 'none' ? 'rate=0' : options.faults,
    prompt,
    isolation,
  })
  context.out.say(
    `model: ${rehearsal.modelName}, scripted; ${options.faults === undefined ? 'a stream cut, a stall and a moved runner are injected' : `faults: ${options.faults}`}`,
  )
  try {
    context.interrupt.throwIfAsked()
    const env = { ...withoutBreakfall(context.env), ...rehearsal.env }
    return await withOwnDaemon(
      context,
      { args: ['--state-dir', rehearsal.stateDir], env, cwd: rehearsal.folder },
      async (own, client) =>
        run(
          {
            client,
            recover: () => own.address(),
            prompt: rehearsal.prompt,
            create: { title: 'rehearsal', box: { workspace: rehearsal.folder, isolation: { min: isolation } } },
            session: undefined,
            parkWaitMs: options.parkWaitMs,
            interrupt: context.interrupt,
            onEvent: (event) => rehearsal.onEvent(event),
            about: { rehearsal: true, ...about },
          },
          context.out,
        ),
    )
  } finally {
    await rehearsal.close()
  }
}

async function withOwnDaemon(
  context: RunContext,
  options: { args: readonly string[]; env: Context['env']; cwd: string },
  act: (own: OwnDaemon, client: DaemonClient) => Promise<number>,
): Promise<number> {
  const own = new OwnDaemon({
    ...options,
    onRestart: () => context.out.say('the daemon of this run has died; starting it again, the turn goes on'),
  })
  try {
    return await act(own, new DaemonClient(await own.address()))
  } finally {
    await own.release()
  }
}

async function drive(
  context: RunContext,
  options: RunOptions,
  client: DaemonClient,
  prompt: string | undefined,
  recover: () => Promise<DaemonAddress>,
): Promise<number> {
  const folder = process.cwd()
  return run(
    {
      client,
      recover,
      prompt,
      create: createFor(context, options, folder, prompt),
      session: await sessionFor(client, options, folder),
      parkWaitMs: options.parkWaitMs,
      interrupt: context.interrupt,
      onSession: (session) => context.out.say(`session: ${session.id}, model ${session.model}`),
    },
    context.out,
  )
}

/** A daemon that was restarted may be at another port: its file says where. */
async function daemonAgain(context: Context, last: DaemonClient): Promise<DaemonAddress> {
  const found = await findDaemon(context.stateDir, context.env)
  return (found ?? last).address
}

function createFor(
  context: RunContext,
  options: RunOptions,
  folder: string,
  prompt: string | undefined,
): SessionCreate {
  const { limits, policy } = context.loaded.config
  const level = options.isolation ?? context.loaded.config.runner?.isolation
  return {
    title: prompt === undefined ? null : (prompt.split('\n')[0]?.slice(0, 80) ?? null),
    box: {
      workspace: folder,
      ...(options.network === undefined ? {} : { network: options.network }),
      ...(limits === undefined ? {} : { limits }),
      ...(level === undefined ? {} : { isolation: { min: level } }),
    },
    ...(context.loaded.config.model?.name === undefined ? {} : { model: context.loaded.config.model.name }),
    ...(policy === undefined ? {} : { policy: policy as Partial<Policy> }),
  }
}

/** The session named, or this folder's last one. */
async function sessionFor(client: DaemonClient, options: RunOptions, folder: string): Promise<Session | undefined> {
  if (options.session !== undefined) return client.session(options.session)
  if (options.continue !== true) return undefined
  const here = (await client.sessions()).filter((session) => session['workspace'] === folder)
  const last = here.sort((a, b) => b.createdAt.localeCompare(a.createdAt))[0]
  if (last === undefined)
    throw new Fault('not_found', { error: `there is no session of the folder ${folder} to go on with` })
  return last
}

function ownArguments(context: RunContext, options: RunOptions, folder: string): readonly string[] {
  const level = options.isolation ?? context.loaded.config.runner?.isolation
  return [
    '--state-dir',
    context.stateDir,
    '--allow-workspace',
    folder,
    ...(level === 'process' ? ['--allow-isolation', 'process'] : []),
  ]
}

/** The choice as variables of the daemon's process; the key stays in its own variable and is only named. */
function modelVariables(choice: {
  baseUrl: string
  name: string
  api: string
  apiKey: string | undefined
  profile: string | undefined
}): Record<string, string> {
  return {
    BREAKFALL_MODEL_BASE_URL: choice.baseUrl,
    BREAKFALL_MODEL_NAME: choice.name,
    BREAKFALL_MODEL_API: choice.api,
    ...(choice.profile === undefined ? {} : { BREAKFALL_MODEL_PROFILE: choice.profile }),
  }
}

const withoutBreakfall = (env: Context['env']): Record<string, string | undefined> =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('BREAKFALL_')))

function hasBwrap(): boolean {
  return (
    spawnSync('bwrap', ['--unshare-all', '--ro-bind', '/', '/', '--proc', '/proc', '--dev', '/dev', 'true'], {
      timeout: 10_000,
    }).status === 0
  )
}
