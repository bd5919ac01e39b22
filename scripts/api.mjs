/** `npm run api`: writes `packages/NAME/api.txt`, the report of what each published library exports. `test/api.test.ts` compares them. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { apiReport } from './api-report.mjs'
import { LIBRARIES } from './packages.mjs'
import { rerunUnder, root, setUp, step } from './setup.mjs'

rerunUnder(setUp({ dev: true }), import.meta.url)
const types = mkdtempSync(join(tmpdir(), 'breakfall-api-'))
try {
  process.exitCode = step('tsc', [
    '--singleThreaded',
    '-p',
    'tsconfig.build.json',
    '--emitDeclarationOnly',
    '--outDir',
    types,
  ])
  for (const name of LIBRARIES) {
    const manifest = JSON.parse(readFileSync(join(root, 'packages', name, 'package.json'), 'utf8'))
    writeFileSync(join(root, 'packages', name, 'api.txt'), apiReport(name, manifest, types))
  }
} finally {
  rmSync(types, { recursive: true, force: true })
}
