/** The folder with `index.html` and `assets/`. */
export function buildConsole(): Promise<string>
