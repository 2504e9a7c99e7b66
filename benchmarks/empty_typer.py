"""The least that a typer application costs; what `omni-migrate --help` is measured against."""

import typer

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command()
def main() -> None:
    pass


app()
