/**
 * What `preset:npm` and the like stand for on this machine. We keep no table of names: the tools are asked which index they
 * use, and the index is asked where its files are. That also finds private mirrors.
 */
import { objectIn } from '@breakfall/faults/internal'
import { NETWORK_PRESETS } from '@breakfall/wire'
import { invalidRequest } from '@breakfall/wire/internal'
import { parsePattern } from './patterns.ts'

export type Preset = (typeof NETWORK_PRESETS)[number]

/** How the machine is asked. Each returns an empty text if there is no answer. */
export type PresetSource = {
  readonly run: (program: string, args: readonly string[]) => Promise<string>
  readonly get: (url: string, accept: string) => Promise<string>
  /** The texts of all files that match. */
  readonly files: (glob: string) => readonly string[]
  /** The names of the folders in a folder. */
  readonly folders: (folder: string) => readonly string[]
  readonly home: string
}

/** A list without presets. Refuses what is neither a name nor a preset. */
export async function expandAllowList(
  allow: readonly string[],
  namesOf: (preset: Preset) => Promise<readonly string[]>,
  field = 'network.allow',
): Promise<readonly string[]> {
  const names: string[] = []
  for (const [i, text] of allow.entries()) {
    const refuse = (expected: string): never => {
      throw invalidRequest([{ field: `${field}.${i}`, expected, got: JSON.stringify(text.slice(0, 100)) }])
    }
    if (!text.startsWith('preset:')) {
      if (parsePattern(text) === undefined) refuse(EXPECTED)
      names.push(text)
      continue
    }
    const preset = NETWORK_PRESETS.find((name) => text === `preset:${name}`)
    if (preset === undefined) return refuse(`one of ${NETWORK_PRESETS.map((name) => `preset:${name}`).join(', ')}`)
    const found = await namesOf(preset)
    if (found.length === 0) refuse(`a preset that this machine can tell: ${WHERE[preset]}; or the names themselves`)
    names.push(...found)
  }
  return [...new Set(names)]
}

export async function presetNames(preset: Preset, source: PresetSource): Promise<readonly string[]> {
  const urls = await ASK[preset](source)
  const names = urls.flatMap((url) => nameOf(url) ?? [])
  return [...new Set(names)].filter((name) => parsePattern(name) !== undefined)
}

// ---- details, in the order they are used above ----

const EXPECTED =
  'a name like packages.example.org, *.example.org, example.org:22 or private:intranet.example, but no address and not localhost'

const WHERE: Readonly<Record<Preset, string>> = {
  npm: 'npm is not installed, or has no registry',
  pypi: 'pip is not installed, or has no index',
  crates: 'cargo has not fetched anything here yet',
  go: 'go is not installed, or has no proxy',
  github: 'it is always known',
  debian: 'there is no list of sources in /etc/apt',
}

const ASK: Readonly<Record<Preset, (source: PresetSource) => Promise<readonly string[]>>> = {
  npm: async ({ run, get }) => {
    const settings = objectIn(await run('npm', ['config', 'list', '--json']))
    const registries = Object.entries(settings).flatMap(([key, value]) =>
      (key === 'registry' || key.endsWith(':registry')) && typeof value === 'string' ? [value] : [],
    )
    const first = registries[0]
    const answer = first === undefined ? '' : await get(`${first.replace(/\/*$/, '/')}npm/latest`, 'application/json')
    return [...registries, ...urlsIn(/"tarball":\s*"([^"]+)"/g, answer)]
  },
  pypi: async ({ run, get, files }) => {
    const pip = async (...args: string[]): Promise<string> => (await run('pip', args)) || run('pip3', args)
    const lines = (await pip('config', 'list')).split('\n')
    const set = lines.filter((line) => /^[^=]*\b(?:extra-)?index-url=/.test(line))
    const help = (await pip('install', '--help')).replaceAll(/\s+/g, ' ')
    const indexes = [
      ...set.flatMap((line) => urlsIn(/(https?:\/\/[^'\s]+)/g, line)),
      ...(set.some((line) => !line.includes('extra-index-url')) // it replaces the default
        ? []
        : urlsIn(/Python Package Index \(default (https?:\/\/[^\s)]+)\)/g, help)),
    ]
    const accept = 'application/vnd.pypi.simple.v1+json, text/html;q=0.1'
    const answers = await Promise.all(indexes.map((index) => get(`${index.replace(/\/*$/, '/')}pip/`, accept)))
    const listed = answers.flatMap((answer) =>
      urlsIn(/"url":\s*"(https?:\/\/[^"]+)"|href=["'](https?:\/\/[^"']+)/g, answer),
    )
    return [...indexes, ...(listed.length === 0 ? storesKnownTo(await pip('--version'), files, indexes) : listed)]
  },
  crates: async ({ folders, files, get, home }) => {
    const at = `${home}/.cargo`
    const used = folders(`${at}/registry/index`).flatMap((name) => /^(.+)-[0-9a-f]{16}$/.exec(name)?.[1] ?? [])
    const set = files(`${at}/config{,.toml}`).flatMap((text) => urlsIn(/"sparse\+(https?:\/\/[^"]+)"/g, text))
    const kept = files(`${at}/registry/index/*/config.json`)
    const indexes = [...used.map((host) => `https://${host}`), ...set]
    const first = indexes[0]
    const answer = first === undefined ? '' : await get(`${first.replace(/\/*$/, '/')}config.json`, 'application/json')
    return [...indexes, ...[...kept, answer].flatMap((text) => urlsIn(/"(?:dl|api)":\s*"([^"]+)"/g, text))]
  },
  go: async ({ run }) => {
    const [proxies = '', sums = ''] = (await run('go', ['env', 'GOPROXY', 'GOSUMDB'])).split('\n')
    const sum = sums.trim().split(/[+\s]/)[0] ?? ''
    return [
      ...proxies.split(/[,|]/).filter((proxy) => proxy.includes('://')),
      ...(sum === '' || sum === 'off' ? [] : [`https://${sum}`]),
    ]
  },
  github: () =>
    Promise.resolve([
      'github.com',
      'api.github.com',
      'codeload.github.com',
      '*.githubusercontent.com',
      'github.com:22',
    ]),
  debian: ({ files }) =>
    Promise.resolve(
      ['/etc/apt/sources.list', '/etc/apt/sources.list.d/*.list', '/etc/apt/sources.list.d/*.sources']
        .flatMap((glob) => files(glob))
        .flatMap((text) => urlsIn(/^(?!\s*#).*?(https?:\/\/[^\s\]]+)/gm, text)),
    ),
}

/** An index that does not answer: pip itself has the name of the host that serves the files of its default index. */
function storesKnownTo(version: string, files: PresetSource['files'], indexes: readonly string[]): readonly string[] {
  const at = / from (\/.+) \(python/.exec(version)?.[1]
  const hosts = new Set(indexes.map(nameOf))
  return (at === undefined ? [] : files(`${at}/_internal/models/index.py`)).flatMap((text) =>
    Array.from(text.matchAll(FILE_STORE)).flatMap(([, index = '', store = '']) =>
      hosts.has(nameOf(index)) ? [store] : [],
    ),
  )
}

/** As pip declares its indexes. */
const FILE_STORE = /\(\s*"(https?:\/\/[^"]+)",\s*file_storage_domain="([^"]+)"/g

const urlsIn = (pattern: RegExp, text: string): readonly string[] =>
  Array.from(text.matchAll(pattern), ([, first, second]) => first ?? second ?? '')

/** The host of a URL, with its port if that is not the default. A plain name is returned unchanged. */
function nameOf(text: string): string | undefined {
  if (!text.includes('://')) return text.trim() === '' ? undefined : text.trim()
  if (!URL.canParse(text.trim())) return undefined
  const { hostname, port } = new URL(text.trim())
  return hostname === '' ? undefined : `${hostname}${port === '' ? '' : `:${port}`}`
}
