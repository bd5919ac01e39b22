/** The documentation page of a category: its path in this checkout, else its name. */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export function faultPage(category: string): string {
  const name = `docs/faults/${category}.md`
  const path = fileURLToPath(new URL(`../../../../${name}`, import.meta.url))
  return existsSync(path) ? path : name
}
