/** A fresh clone with what `npm ci --omit=dev` installs: `up` builds the page once, and `run` never pays for it. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, statSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { startRehearsalModel } from '@breakfall/chaos'
import { hasSandbox, isolation, Place } from '../../../../e2e/breakfall.ts'
import { tempFolder } from '../../../../test/kit/folder.ts'
import { LIMIT } from '../../../../test/kit/wait.ts'
import { root } from '../../../../test/sources.ts'

const git = (folder: string, ...args: readonly string[]): string =>
  execFileSync('git', ['-C', folder, ...args], { encoding: 'utf8' })

const noClone = existsSync(join(root, '.git')) ? false : 'this is no git checkout, so there is nothing to clone'

/** Writes the address of each module that a program loads to a file. */
const tracingTo = (file: string): Record<string, string> => {
  const hook = `import { appendFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
registerHooks({ resolve(name, context, next) {
  const found = next(name, context)
  appendFileSync(${JSON.stringify(file)}, found.url + '\\n')
  return found
} })`
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hook)}` }
}

const loaded = (file: string): readonly string[] => readFileSync(file, 'utf8').split('\n')

/** The page's sources, its packages, and what builds it. */
const isOfConsole = (url: string): boolean =>
  /packages\/console\/|node_modules\/(?:esbuild|preact|@preact|marked|diff)\//.test(url)

test(
  'in a fresh clone without development packages, run loads nothing of the page, up builds and serves it, a second up builds nothing, and git sees no change',
  { ...LIMIT, skip: noClone },
  async (t) => {
    const folder = tempFolder(t, 'clone')
    const clone = join(folder, 'breakfall')
    git(folder, 'clone', '--quiet', '--shared', root, clone)
    installProduction(clone)
    const dist = join(clone, 'packages/console/dist/index.html')
    const trace = (name: string): string => join(folder, name)
    const model = await startRehearsalModel()
    try {
      await using place = new Place({}, join(clone, 'packages/cli/src/main.ts'))
      const given = ['--base-url', model.url, '--model', 'rehearsal/steps-1', '--json']
      const run = await place.run(['run', ...given, ...isolation, 'go'], tracingTo(trace('run')))
      assert.equal(run.code, 0, run.stderr)
      assert.ok(
        loaded(trace('run')).some((url) => url.includes('packages/daemon/')),
        'it had a daemon, and was traced',
      )
      assert.deepEqual(loaded(trace('run')).filter(isOfConsole), [])
      assert.equal(existsSync(dirname(dist)), false)

      const up = async (name: string): Promise<void> => {
        const level = hasSandbox ? [] : ['--allow-isolation', 'process']
        const program = place.start(['up', ...given, ...level], tracingTo(trace(name)))
        const { url } = await program.listening()
        const page = await (await fetch(`${String(url)}/`)).text()
        const [, script = ''] = /<script[^>]+src="([^"]+)"/.exec(page) ?? []
        assert.equal((await fetch(`${String(url)}${script}`)).status, 200, page)
        program.child.kill('SIGTERM')
        await program.ended
      }
      await up('first')
      assert.ok(loaded(trace('first')).some((url) => url.includes('node_modules/esbuild/')))
      const { ino, mtimeMs } = statSync(dist)
      await up('second')
      const again = statSync(dist)
      assert.deepEqual([again.ino, again.mtimeMs], [ino, mtimeMs])
      assert.deepEqual(
        loaded(trace('second')).filter((url) => url.includes('node_modules/esbuild/')),
        [],
      )
      assert.equal(git(clone, 'status', '--porcelain'), '')
    } finally {
      await model.close()
    }
  },
)

// ---- details ----

/** As `npm ci --omit=dev` does it, by the lock file, with the packages that are here already. */
function installProduction(clone: string): void {
  const { packages } = JSON.parse(readFileSync(join(clone, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { dev?: boolean; devOptional?: boolean; link?: boolean; resolved?: string }>
  }
  for (const [path, { dev, devOptional, link, resolved = '' }] of Object.entries(packages)) {
    if (!path.includes('node_modules/') || dev === true || devOptional === true) continue
    mkdirSync(dirname(join(clone, path)), { recursive: true })
    if (link === true) symlinkSync(join(clone, resolved), join(clone, path))
    else if (existsSync(join(root, path))) cpSync(join(root, path), join(clone, path), { recursive: true }) // else: for other machines
  }
}
