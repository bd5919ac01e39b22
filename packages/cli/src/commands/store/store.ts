/** `breakfall store`: what an operator does with a shared store, and how sessions move there from a state folder. */
import { once } from 'node:events'
import { open } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { adoptStore, checkStore, exportStore, importStore, migrateStore, type StorePlace } from '@breakfall/engine'
import { EXIT_CODES, Fault } from '@breakfall/faults'
import type { Context } from '../../command-line/context.ts'
import { usageFault } from '../../command-line/usage-error.ts'
import { counted } from '../../text/amounts.ts'

export type StoreOptions = { readonly store?: string }

export async function storeCommand(
  { out, config }: Context,
  [action = '', file = '-']: readonly string[],
): Promise<number> {
  const place: StorePlace = config.store === undefined ? { stateDir: config.stateDir } : { url: config.store.url }
  const say = (result: object, line: string): number => {
    if (out.json) out.result(result)
    else if (action === 'export' && file === '-') out.say(line)
    else out.line(line)
    return EXIT_CODES.finished
  }
  switch (action) {
    case 'migrate': {
      const { before, schema } = await migrateStore(urlOf(place))
      const line = before === schema ? `schema ${schema}; nothing to do` : `migrated from schema ${before} to ${schema}`
      return say({ before, schema }, line)
    }
    case 'adopt': {
      const adopted = await adoptStore(urlOf(place))
      const line = adopted ? 'adopted; daemons may start' : 'not a copy, or adopted before; nothing to do'
      return say({ adopted }, line)
    }
    case 'check': {
      const checked = await checkStore(place)
      const { sessions, events, problems } = checked
      for (const problem of problems) out.say(problem)
      say(
        { outcome: problems.length === 0 ? 'finished' : 'failed', ...checked },
        `${counted(sessions, 'session')}, ${counted(events, 'event')}, ${counted(problems.length, 'problem')}`,
      )
      return problems.length === 0 ? EXIT_CODES.finished : EXIT_CODES.failed
    }
    case 'export': {
      if (file === '-' && out.json) throw usageFault('With --json, name a file to export to.')
      const dumped = await exported(place, file)
      return say({ ...dumped }, `exported ${counted(dumped.sessions, 'session')}, ${counted(dumped.events, 'event')}`)
    }
    case 'import': {
      const { sessions, events, skipped } = await importStore(place, await linesOf(file))
      const rest =
        skipped === 0 ? '' : `; ${counted(skipped, 'session')} ${skipped === 1 ? 'was' : 'were'} there already`
      return say(
        { sessions, events, skipped },
        `imported ${counted(sessions, 'session')}, ${counted(events, 'event')}${rest}`,
      )
    }
    default: // the command line lists what it takes
      throw usageFault(`${action} is not an action`)
  }
}

// ---- details ----

function urlOf(place: StorePlace): string {
  if ('url' in place) return place.url
  throw usageFault('Say which database: --store postgres://HOST/DATABASE, or [daemon] store in your config.toml.')
}

/** Its lines are read when they are wanted: a reader that starts earlier loses those that nothing waits for. */
async function linesOf(file: string): Promise<AsyncIterable<string>> {
  if (file === '-') return linesIn(process.stdin)
  const handle = await open(file).catch(cannot(`read ${file}`))
  if ((await handle.stat()).isDirectory()) {
    await handle.close()
    throw usageFault(`Cannot read ${file}: it is a folder.`)
  }
  return linesIn(handle.createReadStream())
}

async function* linesIn(input: Readable): AsyncGenerator<string> {
  yield* createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })
}

/** A file that the user named. */
const cannot =
  (what: string) =>
  (error: NodeJS.ErrnoException): never => {
    const why = WHY[error.code ?? ''] ?? error.message
    throw new Fault('invalid_request', { error: `Cannot ${what}: ${why}.`, cause: error })
  }

const WHY: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file or folder',
  EEXIST: 'the file exists already',
  EISDIR: 'it is a folder',
  EACCES: 'permission denied',
}

/** Prompts and outputs are private: a new file, for its owner only. */
async function exported(place: StorePlace, file: string): ReturnType<typeof exportStore> {
  const handle = file === '-' ? undefined : await open(file, 'wx', 0o600).catch(cannot(`write ${file}`))
  const output = handle?.createWriteStream() ?? process.stdout
  try {
    return await exportStore(place, async (line) => {
      if (!output.write(`${line}\n`)) await once(output, 'drain')
    })
  } finally {
    if (output !== process.stdout) {
      output.end()
      await once(output, 'close')
    }
  }
}
