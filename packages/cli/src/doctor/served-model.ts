/** The doctor's checks of a model server that Breakfall starts, without starting it: its program and the files of its command. */
import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { resolve } from 'node:path'
import { errorCode } from '@breakfall/faults/internal'
import { preflight } from '@breakfall/supervisor'
import type { Environment } from '@breakfall/supervisor/platform'
import type { ServedModel } from '../config/model.ts'
import type { Finding } from './finding.ts'
import { filesNamedIn, type NamedFile } from './named-files.ts'
import { cmd } from '../process/command-name.ts'

/** `folder` is where the daemon starts, as a run in it would. */
export async function checkServedModel(
  { command, origin }: ServedModel,
  { env, folder }: { readonly env: Environment; readonly folder: string },
): Promise<readonly Finding[]> {
  const [program = ''] = command
  const files = filesNamedIn(command)
  const unstartable = await preflight({ command: program, cwd: folder, env })
  const unreadable = (await Promise.all(files.map((file) => problemWith(file, folder)))).filter(
    (problem) => problem !== undefined,
  )
  const problems = [
    ...(unstartable === undefined ? [] : [{ what: unstartable.detail, fix: 'install it, or use its full path' }]),
    ...unreadable,
  ]
  if (problems.length > 0)
    return problems.map(({ what, fix }) => ({ check: CHECK, verdict: 'bad', found: what, fix: `${fix} (${origin})` }))
  const exist = [program, ...files.map(({ path }) => path)].join(' and ')
  const found = `${exist} ${files.length === 0 ? 'exists' : 'exist'}, and {port} becomes a free port; to try it: ${cmd('doctor')} --start-model`
  return [{ check: CHECK, verdict: 'ok', found }]
}

// ---- details ----

const CHECK = 'model server'

async function problemWith(
  { path, flag }: NamedFile,
  folder: string,
): Promise<{ readonly what: string; readonly fix: string } | undefined> {
  try {
    await access(resolve(folder, path), constants.R_OK)
    return undefined
  } catch (error) {
    const named = `${path}${flag === undefined ? '' : ` (${flag})`}`
    if (path.startsWith('~/'))
      return { what: `${named} is no path: no shell expands the ~`, fix: 'write the full path' }
    if (errorCode(error) !== 'ENOENT')
      return { what: `${named} cannot be read (${errorCode(error)})`, fix: 'make it readable' }
    const where = path.startsWith('/') ? '' : ` in ${folder}`
    return { what: `${named} does not exist${where}`, fix: 'correct the path, or download the file' }
  }
}
