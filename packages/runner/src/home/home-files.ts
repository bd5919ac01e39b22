/**
 * Files that a new box's home gets: a `.gitconfig` with the user's identity, and `.tool-versions` for asdf and mise, whose
 * choice of versions is in places that a box does not see. Only listed keys and plain versions are taken over; what can hold a
 * credential, a command or another file's name (`credential.*`, `url.*`, `include.*`, `core.sshCommand`, `alias.*` …) is not.
 */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export type HomeFiles = ReadonlyMap<string, string>

/** `workspace` matters because git may know another identity for some folders (`includeIf`). */
export async function readHomeFiles(options: {
  readonly git: string | null
  readonly home: string
  readonly workspace: string | undefined
}): Promise<HomeFiles> {
  const files = new Map<string, string>()
  const identity = options.git === null ? '' : gitConfigOf(await globalGitValues(options.git, options))
  if (identity !== '') files.set('.gitconfig', identity)
  const versions = toolVersions(
    textOf(join(options.home, '.tool-versions')),
    textOf(join(options.home, '.config/mise/config.toml')),
  )
  if (versions !== '') files.set('.tool-versions', versions)
  return files
}

/** From `git config --list -z`: `key\nvalue\0`. Pure. */
export function gitConfigOf(listed: string): string {
  const values = new Map<string, string>()
  for (const entry of listed.split('\0')) {
    const at = entry.indexOf('\n')
    if (at > 0) values.set(entry.slice(0, at).toLowerCase(), entry.slice(at + 1))
  }
  return GIT_KEYS.flatMap(([section, key]) => {
    const value = values.get(`${section}.${key}`.toLowerCase())
    return value === undefined || value.length > 500 || /\p{Cc}/u.test(value)
      ? []
      : [`[${section}]\n\t${key} = ${quoted(value)}\n`]
  }).join('')
}

/** Lines of `name version…`, the host's own file first. Pure. */
export function toolVersions(own: string, mise: string): string {
  const lines = own.split('\n').filter((line) => /^[\w-]+(?:[ \t]+[\w.:-]+)+$/.test(line.trim()))
  const known = new Set(lines.map((line) => line.trim().split(/\s/)[0]))
  const tools = /^\[tools\][ \t]*\n((?:(?!\[).*\n?)*)/m.exec(mise)?.[1] ?? ''
  for (const [, name, version] of tools.matchAll(/^"?([\w-]+)"?\s*=\s*"([\w.-]+)"/gm))
    if (name !== undefined && !known.has(name)) lines.push(`${name} ${version}`)
  return lines
    .slice(0, 200)
    .map((line) => `${line.trim()}\n`)
    .join('')
}

// ---- details ----

const GIT_MS = 2_000

const GIT_KEYS = [
  ['user', 'name'],
  ['user', 'email'],
  ['init', 'defaultBranch'],
  ['core', 'autocrlf'],
  ['pull', 'rebase'],
] as const

const quoted = (value: string): string => `"${value.replaceAll(/["\\]/g, (character) => `\\${character}`)}"`

/** The user's own file with what it includes, and neither the system's nor the repository's. Empty if git does not say. */
function globalGitValues(
  git: string,
  { home, workspace = home }: { readonly home: string; readonly workspace: string | undefined },
): Promise<string> {
  const env = { HOME: home, PATH: '/usr/bin:/bin', GIT_CONFIG_NOSYSTEM: '1', GIT_TERMINAL_PROMPT: '0' }
  return new Promise((resolve) => {
    execFile(
      git,
      ['config', '--global', '--includes', '--list', '-z'],
      { cwd: workspace, env, timeout: GIT_MS, maxBuffer: 1024 * 1024 },
      (error, stdout) => resolve(error === null ? stdout : ''),
    )
  })
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return '' // most users have none
  }
}
