/** The project's source files and their imports, for the tests that check them. */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = dirname(dirname(fileURLToPath(import.meta.url)))

export type Source = { readonly path: string; readonly text: string; readonly code: string }

/** `code` is the text with comments and string contents blanked out, line breaks kept. */
export function sources(...patterns: readonly string[]): readonly Source[] {
  return patterns
    .flatMap((pattern) => globSync(pattern, { cwd: root, exclude: (name) => name.includes('node_modules') }))
    .sort()
    .map((path) => {
      const text = readFileSync(join(root, path), 'utf8')
      return { path, text, code: blanked(text) }
    })
}

export type Import = { readonly specifier: string; readonly dynamic: boolean; readonly typeOnly: boolean }

export function importsOf(text: string): readonly Import[] {
  const found: Import[] = []
  for (const [, typeWord, specifier] of text.matchAll(
    /^\s*(?:import|export)\s+(type\s+)?(?:[^'"`;]*?\sfrom\s+)?['"]([^'"]+)['"]/gm,
  )) {
    if (specifier !== undefined) found.push({ specifier, dynamic: false, typeOnly: typeWord !== undefined })
  }
  for (const [, specifier] of text.matchAll(/\bimport\(\s*['"]([^'"]+)['"]\s*\)/g)) {
    if (specifier !== undefined) found.push({ specifier, dynamic: true, typeOnly: false })
  }
  return found
}

/** Resolves a relative import to a path below the root. */
export function resolveRelative(from: string, specifier: string): string {
  return relative(root, join(root, dirname(from), specifier))
}

function blanked(text: string): string {
  const keepLines = (part: string): string => part.replace(/[^\n]/g, ' ')
  return text.replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"/g, keepLines)
}
